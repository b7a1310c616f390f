"""A broker of the cluster, as clients are told of it."""

from typing import NamedTuple

from barnabas.model.ids import BrokerId

PEER = "broker://"
"""How the client id of a broker begins: what it forwards is not forwarded again."""


class ClusterMember(NamedTuple):
    """One that lives."""

    id: BrokerId
    host: str
    port: int
    rack: str | None
