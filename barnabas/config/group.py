"""Every option of a group, of every group protocol.

Names, defaults and bounds are Kafka's. Options of the consumer protocol have an effect; those of
share groups and of the streams protocol are described, and accept their default alone.
"""

from collections.abc import Mapping

from barnabas.config.broker import BrokerConfig
from barnabas.config.kinds import ConfigType, Fixed, Int
from barnabas.config.option import Option, Scope, declared, invalid
from barnabas.config.resolve import NO_LAYERS, Config, Layers


def _interval(name: str, default: int, doc: str) -> Option[int]:
    return Option(
        name=name,
        kind=Int(min=0),
        default=default,
        scope=Scope.GROUP,
        needs_restart=False,
        doc=doc,
        synonyms=(f"group.{name}",),
    )


class GroupConfig(Config):
    """The effective options of one group, parsed."""

    consumer_session_timeout_ms = _interval(
        "consumer.session.timeout.ms",
        45_000,
        "A member of the consumer protocol that sends no heartbeat for this long is removed from"
        " this group.",
    )
    consumer_heartbeat_interval_ms = _interval(
        "consumer.heartbeat.interval.ms",
        5_000,
        "How often members of this group must send a heartbeat, in the consumer protocol.",
    )
    consumer_assignment_interval_ms = _interval(
        "consumer.assignment.interval.ms",
        1_000,
        "Partitions of this group are assigned again at most this often, in the consumer protocol.",
    )

    def __init__(
        self, settings: Mapping[str, str] | None = None, layers: Layers = NO_LAYERS
    ) -> None:
        super().__init__(OPTIONS, settings or {}, layers)


def check_bounds(settings: Mapping[str, str], layers: Layers) -> None:
    """INVALID_CONFIG if a setting of a group is outside of the broker's limits."""
    config, broker_config = GroupConfig(settings, layers), BrokerConfig(layers)
    bounds = {
        GroupConfig.consumer_session_timeout_ms: (
            broker_config.group_consumer_min_session_timeout_ms,
            broker_config.group_consumer_max_session_timeout_ms,
        ),
        GroupConfig.consumer_heartbeat_interval_ms: (
            broker_config.group_consumer_min_heartbeat_interval_ms,
            broker_config.group_consumer_max_heartbeat_interval_ms,
        ),
        GroupConfig.consumer_assignment_interval_ms: (
            broker_config.group_consumer_min_assignment_interval_ms,
            broker_config.group_consumer_max_assignment_interval_ms,
        ),
    }
    for option, (least, most) in bounds.items():
        value = getattr(config, option.attribute)
        if option.name in settings and not least <= value <= most:
            what = option.name.removeprefix("consumer.")
            raise invalid(
                f"group option {option.name} = {value}: expected {least} to {most}, the broker's"
                f" group.consumer.min.{what} and group.consumer.max.{what}"
            )
    heartbeat_ms, session_ms = (
        config.consumer_heartbeat_interval_ms,
        config.consumer_session_timeout_ms,
    )
    if settings and heartbeat_ms >= session_ms:
        raise invalid(
            f"group option consumer.heartbeat.interval.ms = {heartbeat_ms}: expected less than"
            f" consumer.session.timeout.ms = {session_ms}"
        )


_SHARE, _STREAMS = "Share groups are not supported.", "The streams protocol is not supported."


def _unsupported(
    name: str, default: str, doc: str, type: ConfigType = ConfigType.INT
) -> Option[str]:
    return Option(
        name=name,
        kind=Fixed(default, type),
        default=default,
        scope=Scope.GROUP,
        needs_restart=False,
        doc=doc,
    )


UNSUPPORTED = {
    option.name: option
    for option in (
        _unsupported("share.assignment.interval.ms", "1000", _SHARE),
        _unsupported("share.auto.offset.reset", "latest", _SHARE, ConfigType.STRING),
        _unsupported("share.delivery.count.limit", "5", _SHARE),
        _unsupported("share.heartbeat.interval.ms", "5000", _SHARE),
        _unsupported("share.isolation.level", "read_uncommitted", _SHARE, ConfigType.STRING),
        _unsupported("share.partition.max.record.locks", "2000", _SHARE),
        _unsupported("share.record.lock.duration.ms", "30000", _SHARE),
        _unsupported("share.renew.acknowledge.enable", "true", _SHARE, ConfigType.BOOLEAN),
        _unsupported("share.session.timeout.ms", "45000", _SHARE),
        _unsupported("streams.assignment.interval.ms", "1000", _STREAMS),
        _unsupported("streams.heartbeat.interval.ms", "5000", _STREAMS),
        _unsupported("streams.initial.rebalance.delay.ms", "3000", _STREAMS),
        _unsupported("streams.num.standby.replicas", "0", _STREAMS),
        _unsupported("streams.session.timeout.ms", "45000", _STREAMS),
    )
}
OPTIONS = {option.name: option for option in declared(GroupConfig)}
ALL = dict(sorted((OPTIONS | UNSUPPORTED).items()))
