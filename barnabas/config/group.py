"""Every option of a group, of every group protocol.

Names, defaults and bounds are Kafka's.
"""

from collections.abc import Mapping

from barnabas.config.broker import BrokerConfig
from barnabas.config.kinds import Int
from barnabas.config.option import Option, Scope, declared, invalid
from barnabas.config.resolve import NO_LAYERS, Config, Layers
from barnabas.config.share.group_options import BOUNDS as SHARE_BOUNDS
from barnabas.config.share.group_options import ShareGroupOptions
from barnabas.config.streams.group_options import BOUNDS as STREAMS_BOUNDS
from barnabas.config.streams.group_options import LARGEST, StreamsGroupOptions


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


class GroupConfig(ShareGroupOptions, StreamsGroupOptions, Config):
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
    for option, (least_option, most_option) in BOUNDS.items():
        if option.name not in settings:
            continue
        value = getattr(config, option.attribute)
        least = getattr(broker_config, least_option.attribute)
        most = getattr(broker_config, most_option.attribute)
        if not least <= value <= most:
            raise invalid(
                f"group option {option.name} = {value}: expected {least} to {most}, the broker's"
                f" {least_option.name} and {most_option.name}"
            )
    for option, most_option in LARGEST.items():
        value = getattr(config, option.attribute)
        most = getattr(broker_config, most_option.attribute)
        if option.name in settings and value > most:
            raise invalid(
                f"group option {option.name} = {value}: expected {most} or less, the broker's"
                f" {most_option.name}"
            )
    for interval, timeout in (
        (GroupConfig.consumer_heartbeat_interval_ms, GroupConfig.consumer_session_timeout_ms),
        (GroupConfig.share_heartbeat_interval_ms, GroupConfig.share_session_timeout_ms),
        (GroupConfig.streams_heartbeat_interval_ms, GroupConfig.streams_session_timeout_ms),
    ):
        heartbeat_ms, session_ms = (
            getattr(config, interval.attribute),
            getattr(config, timeout.attribute),
        )
        if settings and heartbeat_ms >= session_ms:
            raise invalid(
                f"group option {interval.name} = {heartbeat_ms}: expected less than"
                f" {timeout.name} = {session_ms}"
            )


BOUNDS = {
    GroupConfig.consumer_session_timeout_ms: (
        BrokerConfig.group_consumer_min_session_timeout_ms,
        BrokerConfig.group_consumer_max_session_timeout_ms,
    ),
    GroupConfig.consumer_heartbeat_interval_ms: (
        BrokerConfig.group_consumer_min_heartbeat_interval_ms,
        BrokerConfig.group_consumer_max_heartbeat_interval_ms,
    ),
    GroupConfig.consumer_assignment_interval_ms: (
        BrokerConfig.group_consumer_min_assignment_interval_ms,
        BrokerConfig.group_consumer_max_assignment_interval_ms,
    ),
    **SHARE_BOUNDS,
    **STREAMS_BOUNDS,
}
"""The broker options that bound an option of a group."""

OPTIONS = {option.name: option for option in declared(GroupConfig)}
ALL = dict(sorted(OPTIONS.items()))
OWN = frozenset(name for name in OPTIONS if name.split(".")[0] in ("barnabas", "errors"))
