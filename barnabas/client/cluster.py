"""A cluster, blocking: a connection per broker, fresh metadata, and retries.

Always: no call outlasts `timeout_ms`; what is Retriable is tried again until then, on a
fresh picture of the cluster.
Not here: what to ask (admin.py, producer.py, consumer.py).
"""

import random
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

from barnabas.client.backoff import waits_ms
from barnabas.client.connection import Connection
from barnabas.client.errors import check
from barnabas.client.metadata import View
from barnabas.config.kinds import Address, parse_address
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.codec import Message
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

M = TypeVar("M", bound=Message)
T = TypeVar("T")
BOOTSTRAP = -1
DEFAULT_PORT = 9092


class Cluster:
    """Opens connections as they are needed. To be closed."""

    def __init__(
        self, bootstrap_servers: str, *, client_id: str = "barnabas", timeout_ms: int = 30_000
    ) -> None:
        self._bootstrap = bootstrap_addresses(bootstrap_servers)
        self._client_id = client_id
        self.timeout_ms = timeout_ms
        self._connections: dict[int, Connection] = {}
        self._view: View | None = None
        self._topics: dict[str, None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # --- who leads what ---

    def view(self, topics: Iterable[str] = ()) -> View:
        """A picture that holds these topics, or says why not; taken anew only if needed."""
        missing = [name for name in topics if name not in self._topics]
        if self._view is None or missing:
            self._topics.update(dict.fromkeys(missing))
            return self.refresh()
        return self._view

    def refresh(self, *, create: bool = False) -> View:
        """A new picture, of the topics asked for so far. `create`: missing ones come to be."""
        self._view = self.view_of(list(self._topics), create=create)
        return self._view

    def view_of(self, topics: list[str] | None, *, create: bool = False) -> View:
        """A picture of these topics; None: of all."""
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=create,
        )
        response = self.anyone().call(request, MetadataResponse, timeout_ms=self.timeout_ms)
        check(response.error_code, about="metadata")
        return View(response)

    # --- whom to ask ---

    def anyone(self) -> Connection:
        """An open connection, else the first broker that answers."""
        for broker in list(self._connections):
            return self._connections[broker]
        problem: KafkaError | None = None
        known = [broker.address for broker in self._view.brokers.values()] if self._view else []
        for address in dict.fromkeys([*known, *self._bootstrap]):
            try:
                opened = self._open(address)
            except Retriable as why:
                problem = why
                continue
            self._connections[BOOTSTRAP] = opened
            return opened
        assert problem is not None
        raise problem

    def broker(self, broker: int) -> Connection:
        if connection := self._connections.get(broker):
            return connection
        brokers = self.view().brokers
        if broker not in brokers:
            raise Retriable(Code.BROKER_NOT_AVAILABLE, f"broker {broker} is not there")
        connection = self._connections[broker] = self._open(brokers[broker].address)
        return connection

    def controller(self) -> Connection:
        return self.broker(self.view().controller_id)

    def leader(self, at: TopicPartition) -> Connection:
        return self.broker(self.view([at.topic]).leader(at))

    def retrying(self, attempt: Callable[[], T]) -> T:
        """The result of `attempt`, tried again on a fresh picture until the time is up."""
        deadline = time.monotonic() + self.timeout_ms / 1000
        for wait_ms in waits_ms(iter(random.random, None)):
            try:
                return attempt()
            except Retriable as problem:
                if not self._connected_once() or time.monotonic() + wait_ms / 1000 > deadline:
                    raise
                self._forget_broken(problem)
            time.sleep(wait_ms / 1000)
            try:
                self.refresh()
            except Retriable as problem:
                self._forget_broken(problem)
        raise AssertionError("the waits never end")

    def lost(self, broker: int) -> None:
        """Forget a connection that failed."""
        if connection := self._connections.pop(broker, None):
            connection.close()

    def _connected_once(self) -> bool:
        # A wrong address should be reported at once, not after the timeout.
        return bool(self._connections) or self._view is not None

    def _forget_broken(self, problem: Retriable) -> None:
        if problem.code in (Code.NETWORK_EXCEPTION, Code.REQUEST_TIMED_OUT):
            self.close()

    def _open(self, address: Address) -> Connection:
        return Connection(address, client_id=self._client_id, timeout_ms=self.timeout_ms)


def bootstrap_addresses(text: str) -> list[Address]:
    """HOST[:PORT] between commas."""
    found = []
    for part in text.split(","):
        part = part.strip()
        if part.count(":") == 0 or part.endswith("]"):
            part = f"{part}:{DEFAULT_PORT}"
        try:
            address = parse_address(part)
        except ValueError as problem:
            raise InvalidRequest(
                Code.INVALID_CONFIG, f"bootstrap server {part[:100]!r}: {problem}"
            ) from None
        if not address.host or not address.port:
            raise InvalidRequest(
                Code.INVALID_CONFIG, f"bootstrap server {part[:100]!r}: expected HOST:PORT"
            )
        found.append(address)
    return found
