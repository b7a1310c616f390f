"""One broker per module, and the same behaviours asked of it by each client library.

With BARNABAS_AGAINST=HOST:PORT the tests of behaviour ask another broker instead, which is how
their expectations are held against Apache Kafka itself.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pytest

from tests.compat.adapters.aiokafka import AiokafkaClient
from tests.compat.adapters.client import Client
from tests.compat.adapters.confluent import ConfluentClient
from tests.compat.adapters.kafka_python import KafkaPythonClient
from tests.process import running_broker

LIBRARIES: dict[str, type[Client]] = {
    library.name: library for library in (ConfluentClient, KafkaPythonClient, AiokafkaClient)
}


class Address(Protocol):
    """What a client needs to know of a broker."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def bootstrap_servers(self) -> str: ...


@dataclass(frozen=True)
class Elsewhere:
    host: str
    port: int

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"


class Clients:
    """Each library's client, connected when first asked for."""

    def __init__(self, broker: Address) -> None:
        self._broker = broker
        self._connected: dict[str, Client] = {}

    def __getitem__(self, name: str) -> Client:
        if name not in self._connected:
            self._connected[name] = LIBRARIES[name](self._broker.bootstrap_servers)
        return self._connected[name]

    def close(self) -> None:
        for client in self._connected.values():
            client.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    against = os.environ.get("BARNABAS_AGAINST")
    if against:
        host, _, port = against.rpartition(":")
        yield Elsewhere(host, int(port))
        return
    directory = tmp_path_factory.mktemp("broker")
    with running_broker(directory) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def topic(topic: str) -> str:
    """Another broker may remember the topics of an earlier run."""
    return f"{topic}-{os.getpid()}" if os.environ.get("BARNABAS_AGAINST") else topic


@pytest.fixture(scope="module")
def clients(broker: Address) -> Iterator[Clients]:
    connected = Clients(broker)
    yield connected
    connected.close()


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def client(clients: Clients, library: str) -> Client:
    """The same test, once with each library."""
    return clients[library]
