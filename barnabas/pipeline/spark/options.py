"""The options of Spark's Kafka source and sink, parsed.

In: the user's options, names in any case. Out: options, or OptionError that names one.
Always: names, defaults and precedence are Spark's; `kafka.NAME` is an option of the client.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.spark.offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    from_json,
    parse,
    partitions_from_json,
)

BOOTSTRAP_SERVERS = "bootstrap.servers"
GROUP_ID = "group.id"
# Set by pipelines, from their checkpoint; not for users.
BEGAN, TOPIC_IDS = "checkpointBegan", "checkpointTopicIds"
_CHOICES = ("subscribe", "subscribepattern", "assign")
_NAMES = {"subscribepattern": "subscribePattern"}
_FORBIDDEN = {
    "auto.offset.reset": "set startingOffsets to earliest or latest instead",
    "enable.auto.commit": "progress is committed when Spark has made it durable, with group.id set",
    "key.deserializer": "keys are bytes: use DataFrame operations to take them apart",
    "value.deserializer": "values are bytes: use DataFrame operations, or the option valueFormat",
    "interceptor.classes": "interceptors could change records",
    "key.serializer": "keys are bytes or strings: use DataFrame operations to make them",
    "value.serializer": "values are bytes or strings: use DataFrame operations to make them",
}
_SIDE_ONLY = {
    "auto.offset.reset": "source",
    "enable.auto.commit": "source",
    "key.deserializer": "source",
    "value.deserializer": "source",
    "interceptor.classes": "source",
    "key.serializer": "sink",
    "value.serializer": "sink",
}
TRANSACTION_TIMEOUT_MS = 900_000
"""The most that brokers allow by default: a batch that takes longer is never committed."""
SOURCE_NAMES = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "startingTimestamp",
    "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss",
    "minPartitions", "maxRecordsPerPartition", "minOffsetsPerTrigger", "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "maxTriggerDelay", "includeHeaders", "group.id", "groupIdPrefix", "behindGroup",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
    "partition.metadata.cache.ttl.ms",
)  # fmt: skip
_TIME_UNITS_MS = {
    "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip
_TRIGGER_DELAY = "15m"
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class ReadBound:
    """Where reading starts or ends: offsets or times, for each partition or for all."""

    offsets: Offsets | None = None
    times: Offsets | None = None
    everywhere: int | None = None  # EARLIEST or LATEST
    time: int | None = None


@dataclass(frozen=True)
class SourceOptions:
    """The options of a source: topics, start, end, and limits."""

    client: dict[str, str]
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()
    starting: ReadBound = field(default_factory=ReadBound)
    ending: ReadBound = field(default_factory=ReadBound)
    latest_if_no_time: bool = False
    fail_on_data_loss: bool = True
    tasks_min: int | None = None
    records_per_task_max: int | None = None
    records_per_trigger_min: int | None = None
    records_per_trigger_max: int | None = None
    bytes_per_trigger_max: int | None = None
    trigger_delay_ms_max: int = 15 * 60_000
    headers: bool = False
    group: str | None = None
    behind_group: str | None = None  # reads only records that this group has read
    began: Offsets | None = None  # where the query began, if its checkpoint says so
    topic_ids: dict[str, UUID] = field(default_factory=dict)  # of the checkpoint
    tries: int = 3
    retry_wait_ms: int = 10
    poll_timeout_ms: int = 120_000

    @property
    def start_digest(self) -> str:
        """A short name for the topics and the start that the user chose."""
        chosen = [self.topics, self.pattern, [str(at) for at in self.assigned]]
        start = self.starting
        where = [start.everywhere, start.time, self.latest_if_no_time]
        each = [
            sorted((str(at), number) for at, number in (given or {}).items())
            for given in (start.offsets, start.times)
        ]
        return hashlib.sha256(json.dumps([chosen, where, each]).encode()).hexdigest()[:16]

    @property
    def described(self) -> str:
        if self.pattern is not None:
            return f"pattern {self.pattern!r}"
        if self.assigned:
            return "assigned " + ", ".join(str(at) for at in self.assigned)
        return "topics " + ", ".join(self.topics)


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    options = {name.lower(): value for name, value in given.items()}
    topics, pattern, assigned = _choice(options)
    starting = _where(options, "starting", LATEST if streaming else EARLIEST)
    ending = _where(options, "ending", LATEST)
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if name.lower() in options:
                raise OptionError(f"{name} is not allowed in streaming queries: they have no end")
    else:
        _check_batch(starting, ending)
    least = _number(options, "minOffsetsPerTrigger", 0)
    most = _number(options, "maxOffsetsPerTrigger", 0)
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most}): lower it"
        )
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise OptionError(
            f"startingOffsetsByTimestampStrategy: expected error or latest, got {strategy[:100]!r}"
        )
    client = client_options(options, "source")
    group = options.get(GROUP_ID, client.get(GROUP_ID))
    return SourceOptions(
        client=client,
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=starting,
        ending=ending,
        latest_if_no_time=strategy == "latest",
        fail_on_data_loss=_yes(options, "failOnDataLoss", True),
        tasks_min=_number(options, "minPartitions", 1),
        records_per_task_max=_number(options, "maxRecordsPerPartition", 1),
        records_per_trigger_min=least,
        records_per_trigger_max=most,
        bytes_per_trigger_max=_number(options, "maxBytesPerTrigger", 1),
        trigger_delay_ms_max=time_ms(options.get("maxtriggerdelay", _TRIGGER_DELAY)),
        headers=_yes(options, "includeHeaders", False),
        group=group.strip() if group else None,
        behind_group=options.get("behindgroup"),
        began=_began(options),
        topic_ids=_topic_ids(options),
        tries=_number(options, "fetchOffset.numRetries", 1) or 3,
        retry_wait_ms=_or(_number(options, "fetchOffset.retryIntervalMs", 0), 10),
        poll_timeout_ms=_or(_number(options, "kafkaConsumer.pollTimeoutMs", 1), 120_000),
    )


def _began(options: Mapping[str, str]) -> Offsets | None:
    text = options.get(BEGAN.lower())
    return None if text is None else from_json(parse(text, BEGAN, '{"topicA":{"0":23}}'), BEGAN)


def _topic_ids(options: Mapping[str, str]) -> dict[str, UUID]:
    text = options.get(TOPIC_IDS.lower())
    if text is None:
        return {}
    example = '{"topicA":"1b671a64-40d5-491e-99b0-da01ff1f3341"}'
    document = parse(text, TOPIC_IDS, example)
    try:
        assert isinstance(document, dict)
        return {str(name): UUID(id_) for name, id_ in document.items()}
    except (AssertionError, AttributeError, TypeError, ValueError):
        raise OptionError(f"{TOPIC_IDS}: expected e.g. {example}, got {text[:200]}") from None


@dataclass(frozen=True)
class SinkOptions:
    """The options of a sink."""

    client: dict[str, str]
    topic: str | None = None
    headers: bool = False
    exactly_once: bool = False
    checkpoint: str | None = None  # of a stream
    app_id: str | None = None  # what `version` numbers
    version: int | None = None
    identity: str = ""  # of the records behind a number, where the checkpoint does not say it
    id_prefix: str = "spark"  # of transactional ids
    timeout_ms: int = TRANSACTION_TIMEOUT_MS


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    options = {name.lower(): value for name, value in given.items()}
    topic = options.get("topic")
    client = client_options(options, "sink")
    id_prefix = client.pop("transactional.id", "spark").strip()
    timeout = _number(options, "kafka.transaction.timeout.ms", 1)
    client.pop("transaction.timeout.ms", None)
    return SinkOptions(
        client=client,
        topic=topic.strip() if topic is not None else None,
        headers=_yes(options, "includeHeaders", False),
        exactly_once=_yes(options, "exactlyOnce", False),
        checkpoint=options.get("checkpointlocation"),
        app_id=options.get("txnappid"),
        version=_number(options, "txnVersion", 0),
        identity=options.get("barnabas.batch.identity", ""),
        id_prefix=id_prefix,
        timeout_ms=_or(timeout, TRANSACTION_TIMEOUT_MS),
    )


def client_options(options: Mapping[str, str], side: str) -> dict[str, str]:
    """The options with the prefix `kafka.`. Refuses those that Spark or we do not allow."""
    found = {name[6:]: value for name, value in options.items() if name.startswith("kafka.")}
    for name, remedy in _FORBIDDEN.items():
        if name in found and _SIDE_ONLY[name] == side:
            raise OptionError(f"kafka.{name} is not supported: {remedy}")
    if not found.get(BOOTSTRAP_SERVERS, "").strip():
        raise OptionError("kafka.bootstrap.servers is missing: set it to HOST:PORT")
    return found


def time_ms(text: str) -> int:
    """A duration as Spark writes it: 15m, 10s, 500ms; a plain number is milliseconds."""
    matched = re.fullmatch(r"\s*(-?\d{1,18})\s*([a-z]*)\s*", text.lower())
    unit = (matched[2] or "ms") if matched else ""
    if matched is None or unit not in _TIME_UNITS_MS or int(matched[1]) < 0:
        raise OptionError(f"maxTriggerDelay: expected e.g. 15m, 10s or 500ms, got {text[:100]!r}")
    return int(int(matched[1]) * _TIME_UNITS_MS[unit])


def _choice(
    options: Mapping[str, str],
) -> tuple[tuple[str, ...], str | None, tuple[TopicPartition, ...]]:
    chosen = [name for name in _CHOICES if name in options]
    if len(chosen) != 1:
        said = " and ".join(_NAMES.get(name, name) for name in chosen) or "none"
        raise OptionError(
            f"exactly one of subscribe, subscribePattern and assign must be set, not {said}"
        )
    text = options[chosen[0]].strip()
    if chosen[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise OptionError(f"subscribe: there is no topic in {text!r}")
        return topics, None, ()
    if chosen[0] == "subscribepattern":
        return (), _pattern(text), ()
    document = parse(text, "assign", '{"topicA":[0,1]}')
    assigned = tuple(partitions_from_json(document, "assign"))
    if not assigned:
        raise OptionError(f"assign: there is no partition in {text!r}")
    return (), None, assigned


def _pattern(text: str) -> str:
    """A Java pattern, which is nearly always a Python pattern too; others are refused."""
    if not text:
        raise OptionError("subscribePattern: the pattern is empty")
    try:
        re.compile(text)
    except re.error as problem:
        raise OptionError(
            f"subscribePattern: {text[:200]!r} is not a valid pattern: {problem}"
        ) from None
    return text


def _where(options: Mapping[str, str], side: str, default: int) -> ReadBound:
    if (text := options.get(f"{side}timestamp")) is not None:
        if not re.fullmatch(r"\s*-?\d{1,19}\s*", text):
            raise OptionError(f"{side}Timestamp: expected milliseconds, got {text[:100]!r}")
        return ReadBound(time=int(text))
    if (text := options.get(f"{side}offsetsbytimestamp")) is not None:
        name = f"{side}OffsetsByTimestamp"
        document = parse(text, name, '{"topicA":{"0":1700000000000}}')
        return ReadBound(times=from_json(document, name))
    if (text := options.get(f"{side}offsets")) is not None:
        named = text.strip().lower()
        if named in ("earliest", "latest"):
            return ReadBound(everywhere=EARLIEST if named == "earliest" else LATEST)
        name = f"{side}Offsets"
        document = parse(text, name, 'earliest, latest or {"topicA":{"0":23,"1":-1}}')
        offsets = from_json(document, name)
        for at, offset in offsets.items():
            if offset < EARLIEST:
                raise OptionError(f"{name}: {at} has offset {offset}; -1 is latest, -2 earliest")
        return ReadBound(offsets=offsets)
    return ReadBound(everywhere=default)


def _check_batch(starting: ReadBound, ending: ReadBound) -> None:
    if starting.everywhere == LATEST:
        raise OptionError(
            "startingOffsets cannot be latest in a batch query: nothing would be read"
        )
    if ending.everywhere == EARLIEST:
        raise OptionError("endingOffsets cannot be earliest in a batch query")
    for at, offset in (starting.offsets or {}).items():
        if offset == LATEST:
            raise OptionError(f"startingOffsets: {at} cannot be -1 (latest) in a batch query")
    for at, offset in (ending.offsets or {}).items():
        if offset == EARLIEST:
            raise OptionError(f"endingOffsets: {at} cannot be -2 (earliest) in a batch query")
    for first, last, unit in (
        (starting.offsets, ending.offsets, "offset"),
        (starting.times, ending.times, "time"),
    ):
        if first is None or last is None:
            continue
        if first.keys() != last.keys():
            odd = sorted(first.keys() ^ last.keys())
            raise OptionError(
                "starting and ending offsets must name the same partitions; only one has "
                + ", ".join(str(at) for at in odd[:10])
            )
        for at, start in first.items():
            if 0 <= last[at] < start:
                raise OptionError(f"{at}: starting {unit} {start} is behind the end, {last[at]}")


def _number(options: Mapping[str, str], name: str, least: int) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"\s*[+-]?\d{1,19}\s*", text) or not least <= int(text) <= _INT64_MAX:
        raise OptionError(f"{name}: expected a whole number from {least} on, got {text[:100]!r}")
    return int(text)


def _or(number: int | None, default: int) -> int:
    return default if number is None else number


def _yes(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"{name}: expected true or false, got {text[:100]!r}")
    return text.strip().lower() == "true"
