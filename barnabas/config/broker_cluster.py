"""Broker options about the cluster it belongs to: through which keeper, as whom.

A broker with neither `keeper.file` nor `zookeeper.connect` stands alone.
Names and defaults are those of ZooKeeper-era Kafka, save `keeper.file`.
"""

from barnabas.config.kinds import Milliseconds, Text
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config


class ClusterOptions(Config):
    """Where the brokers of a cluster agree."""

    keeper_file = Option[str | None](
        name="keeper.file",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The file in which the brokers of one machine agree; `barnabas up --brokers` sets it.",
    )
    zookeeper_connect = Option[str | None](
        name="zookeeper.connect",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="HOST:PORT,...[/root]: the ZooKeeper through which brokers of several machines agree.",
    )
    zookeeper_session_timeout_ms = Option[int](
        name="zookeeper.session.timeout.ms",
        kind=Milliseconds(min=100, bits=32),
        default=18_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="A broker that the keeper, of either kind, has not heard of for this long is taken for "
        "dead. One of the same machine whose process has ended is missed at once.",
    )

    @property
    def clustered(self) -> bool:
        """Does this broker belong to a cluster, rather than stand alone?"""
        return bool(self.keeper_file or self.zookeeper_connect)
