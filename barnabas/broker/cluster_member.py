"""A broker of the cluster, as clients see it."""

from typing import NamedTuple

from barnabas.model.ids import BrokerId

PEER = "broker://"
"""The prefix of a broker's client id: requests from a broker are not forwarded again."""


class ClusterMember(NamedTuple):
    """A live broker."""

    id: BrokerId
    host: str
    port: int
    rack: str | None
