"""A broker of the cluster, as clients and other brokers see it."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from barnabas.config.kinds import Address
from barnabas.model.ids import BrokerId

PEER = "broker://"
"""The prefix of a broker's client id: requests from a broker are not forwarded again."""


class ClusterMember(NamedTuple):
    """A live broker at the address that one listener advertises."""

    id: BrokerId
    host: str
    port: int
    rack: str | None


class LiveBroker(NamedTuple):
    """A live broker at all its advertised addresses, by the names of listeners."""

    id: BrokerId
    rack: str | None
    endpoints: Mapping[str, Address] = MappingProxyType({})


def at_listener(brokers: Iterable[LiveBroker], listener: str) -> list[ClusterMember]:
    """As the clients of this listener see them: brokers without it are left out."""
    found = []
    for each in brokers:
        address = each.endpoints.get(listener)
        if address is not None:
            found.append(ClusterMember(each.id, address.host, address.port, each.rack))
    return found
