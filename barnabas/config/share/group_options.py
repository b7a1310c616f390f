"""The options of one share group, and the broker's bounds for them.

Names and defaults are Kafka's; `errors.deadletterqueue.*` are those of KIP-1191, and
`barnabas.share.*` are our own.
Not here: the defaults for all groups (broker_options.py).
"""

import re

from barnabas.config.kinds import Bool, Enum, Int, Kind, Milliseconds
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config
from barnabas.config.share.broker_options import ShareGroupBrokerOptions
from barnabas.model.errors import InvalidRequest
from barnabas.model.ids import check_topic_name

BACKOFF_MS_MAX = 3_600_000
_BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d{1,12})D)?"
    r"(T(?=[-+\d])(?:([-+]?\d{1,12})H)?(?:([-+]?\d{1,12})M)?(?:([-+]?\d{1,12}(?:\.\d{0,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)


def duration_ms(text: str) -> int | None:
    """The N of `by_duration:N`, in milliseconds; None for other strategies. ValueError if it is
    not a duration as Java reads it (PnDTnHnMn.nS), or negative."""
    if not text.lower().startswith(_BY_DURATION):
        return None
    found = _DURATION.fullmatch(text[len(_BY_DURATION) :].strip())
    if found is None or (found[2] is None and found[3] is None):
        raise ValueError(f"expected a duration such as {_BY_DURATION}PT1H")
    days, hours, minutes, seconds = (found[group] or "0" for group in (2, 4, 5, 6))
    whole = (int(days) * 24 + int(hours)) * 3_600 + int(minutes) * 60
    total_ms = whole * 1_000 + int(float(seconds) * 1_000)
    if found[1] == "-":
        total_ms = -total_ms
    if total_ms < 0:
        raise ValueError("expected a duration that is not negative")
    return total_ms


class ShareOffsetReset(Kind[str]):
    """Where a group begins in a partition that it has not read: earliest, latest, or by time."""

    __slots__ = ()

    def parse(self, text: str) -> str:
        word = text.strip().lower()
        if word in ("earliest", "latest"):
            return word
        if duration_ms(text.strip()) is None:
            raise ValueError(f"expected {self.bounds()}")
        return text.strip()

    def bounds(self) -> str:
        return "earliest, latest, or by_duration:PnDTnHnMn.nS"


class DeadLetterTopic(Kind[str]):
    """The name of a topic that clients may write to, or nothing."""

    __slots__ = ()

    def parse(self, text: str) -> str:
        name = text.strip()
        if not name:
            return ""
        try:
            check_topic_name(name)
        except InvalidRequest as error:
            raise ValueError(error.detail) from None
        if name.startswith("__"):
            raise ValueError(f"{name} is a name of an internal topic: choose another topic")
        return name

    def bounds(self) -> str:
        return "the name of a topic that is not internal, or nothing"


def _option(name: str, kind: Int | Milliseconds, default: int, doc: str) -> Option[int]:
    return Option(
        name=f"share.{name}",
        kind=kind,
        default=default,
        scope=Scope.GROUP,
        needs_restart=False,
        doc=doc,
        synonyms=(f"group.share.{name}",),
    )


class ShareGroupOptions(Config):
    """What a share group may have of its own."""

    share_session_timeout_ms = _option(
        "session.timeout.ms",
        Int(min=1),
        45_000,
        "A member of this share group that sends no heartbeat for this long is removed.",
    )
    share_heartbeat_interval_ms = _option(
        "heartbeat.interval.ms",
        Int(min=1),
        5_000,
        "How often members of this share group must send a heartbeat.",
    )
    share_assignment_interval_ms = _option(
        "assignment.interval.ms",
        Int(min=0),
        1_000,
        "Partitions of this share group are assigned again at most this often.",
    )
    share_record_lock_duration_ms = _option(
        "record.lock.duration.ms",
        Int(min=1_000),
        30_000,
        "How long a member of this share group holds a record before others may have it.",
    )
    share_delivery_count_limit = _option(
        "delivery.count.limit",
        Int(min=2),
        5,
        "How often a record is delivered to this share group at most.",
    )
    share_partition_max_record_locks = _option(
        "partition.max.record.locks",
        Int(min=100),
        2_000,
        "The most records of one partition between this share group's start offset and its end.",
    )
    share_auto_offset_reset = Option[str](
        name="share.auto.offset.reset",
        kind=ShareOffsetReset(),
        default="latest",
        scope=Scope.GROUP,
        needs_restart=False,
        doc="Where this share group begins in a partition that it has not read yet.",
    )
    share_isolation_level = Option[str](
        name="share.isolation.level",
        kind=Enum("read_committed", "read_uncommitted"),
        default="read_uncommitted",
        scope=Scope.GROUP,
        needs_restart=False,
        doc="Whether this share group receives records of open and aborted transactions.",
    )
    share_renew_acknowledge_enable = Option[bool](
        name="share.renew.acknowledge.enable",
        kind=Bool(),
        default=True,
        scope=Scope.GROUP,
        needs_restart=False,
        doc="Whether members of this share group may prolong the lock of a record.",
    )
    barnabas_share_release_backoff_ms = Option[int](
        name="barnabas.share.release.backoff.ms",
        kind=Milliseconds(min=0, max=BACKOFF_MS_MAX, bits=32),
        default=0,
        scope=Scope.GROUP,
        needs_restart=False,
        doc="A released record waits this long before it is delivered to this share group again;"
        " twice as long after each further attempt, one hour at most. 0: at once, as in Kafka.",
    )
    errors_deadletterqueue_topic_name = Option[str](
        name="errors.deadletterqueue.topic.name",
        kind=DeadLetterTopic(),
        default="",
        scope=Scope.GROUP,
        needs_restart=False,
        doc="The dead-letter topic of this share group: it receives records that were rejected, or"
        " delivered too often. Empty: none.",
    )
    errors_deadletterqueue_copy_record_enable = Option[bool](
        name="errors.deadletterqueue.copy.record.enable",
        kind=Bool(),
        default=False,
        scope=Scope.GROUP,
        needs_restart=False,
        doc="Whether dead letters of this share group carry the key and the value of their record.",
    )


BOUNDS = {
    ShareGroupOptions.share_session_timeout_ms: (
        ShareGroupBrokerOptions.group_share_min_session_timeout_ms,
        ShareGroupBrokerOptions.group_share_max_session_timeout_ms,
    ),
    ShareGroupOptions.share_heartbeat_interval_ms: (
        ShareGroupBrokerOptions.group_share_min_heartbeat_interval_ms,
        ShareGroupBrokerOptions.group_share_max_heartbeat_interval_ms,
    ),
    ShareGroupOptions.share_assignment_interval_ms: (
        ShareGroupBrokerOptions.group_share_min_assignment_interval_ms,
        ShareGroupBrokerOptions.group_share_max_assignment_interval_ms,
    ),
    ShareGroupOptions.share_record_lock_duration_ms: (
        ShareGroupBrokerOptions.group_share_min_record_lock_duration_ms,
        ShareGroupBrokerOptions.group_share_max_record_lock_duration_ms,
    ),
    ShareGroupOptions.share_delivery_count_limit: (
        ShareGroupBrokerOptions.group_share_min_delivery_count_limit,
        ShareGroupBrokerOptions.group_share_max_delivery_count_limit,
    ),
    ShareGroupOptions.share_partition_max_record_locks: (
        ShareGroupBrokerOptions.group_share_min_partition_max_record_locks,
        ShareGroupBrokerOptions.group_share_max_partition_max_record_locks,
    ),
}
"""The broker options that bound an option of a group."""
