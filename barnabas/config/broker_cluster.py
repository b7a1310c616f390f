"""Broker options about its cluster: the keeper and its session.

A broker with neither `keeper.file` nor `zookeeper.connect` is a lone broker. Names and defaults are
those of ZooKeeper-era Kafka, except `keeper.file`.
"""

from barnabas.config.kinds import Milliseconds, Text
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config


class ClusterOptions(Config):
    """The keeper that the brokers of a cluster share."""

    keeper_file = Option[str | None](
        name="keeper.file",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The keeper file that the brokers of one machine share; `barnabas up "
        "--brokers` sets it.",
    )
    zookeeper_connect = Option[str | None](
        name="zookeeper.connect",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="HOST:PORT,...[/root]: the ZooKeeper that brokers of several machines share.",
    )
    zookeeper_session_timeout_ms = Option[int](
        name="zookeeper.session.timeout.ms",
        kind=Milliseconds(min=100, bits=32),
        default=18_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The session timeout: a broker that sends the keeper nothing for this long is "
        "considered dead. On one machine, the end of its process is noticed at once.",
    )

    @property
    def clustered(self) -> bool:
        """Whether this broker belongs to a cluster."""
        return bool(self.keeper_file or self.zookeeper_connect)
