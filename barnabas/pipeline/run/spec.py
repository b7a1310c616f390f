"""A pipeline's spec: its name, kind, source, sink, error handling, and where it runs.

In: a parsed YAML document. Out: a Spec, or SpecError with one line per mistake.
Always: all mistakes are found at once; each names the key, the value and the remedy.
Not here: what the kinds do (pipeline/mirror/mirroring.py, pipeline/lake/lake.py, running.py).
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barnabas.config.option import nearest
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.iceberg_spec import check_catalog, check_partitions
from barnabas.pipeline.run.section import SHOWN_MAX, Section
from barnabas.pipeline.spark.files import local_path, path_parts
from barnabas.pipeline.spark.options import SOURCE_NAMES

KINDS = ("stream", "lake", "mirror")
FORMATS = ("json", "avro", "protobuf", "bytes")
AVAILABLE_NOW = "available_now"
_SINKS = {
    "stream": ("barnabas", "parquet", "console"),
    "lake": ("parquet", "delta", "iceberg"),
    "mirror": (),
}
ALL, LATEST = "all", "latest"
TRANSLATED, IDENTICAL = "translated", "identical"
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
BY_BROKERS = "by_brokers"  # exactly once on Barnabas, at least once on Apache Kafka
_STARTING = ("earliest", "latest")
_MODES = ("append", "update", "complete")
_DELIVERY = {
    "lake": (EXACTLY_ONCE,),
    "mirror": (EXACTLY_ONCE, AT_LEAST_ONCE),
}
_INTERVAL = re.compile(r"(\d{1,9})\s*(ms|s|m|h)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_MASTER = re.compile(r"local(-cluster)?(\[[\d*, ]+\])?|spark://.+|yarn|k8s://.+")
_READ_AGAIN = "would be read again forever: use another topic"
_RETRIES_MAX = 1000
_SIZE_MAX = 1024 * 1024
_S3 = ("s3", "s3a")
_DAYS = {"parquet": ("date",), "delta": ("date",), "iceberg": ("day(_ts)",)}
_TABLE = re.compile(r"[^.\s]+(\.[^.\s]+)+")
_NOT_DELTA = re.compile(r"[\[\]^|]|%[0-9A-Fa-f]{2}")


class SpecError(PipelineError):
    """One line per mistake."""


@dataclass(frozen=True)
class SourceSpec:
    """The source of a pipeline."""

    servers: str
    topics: tuple[str, ...]
    pattern: str | None
    group: str
    starting: str
    format: str
    schema: str | None
    message: str | None
    registry: str | None
    subject: str | None
    options: dict[str, str]

    def reads(self, topic: str) -> bool:
        if self.pattern is None:
            return topic in self.topics
        try:
            return re.search(self.pattern, topic) is not None
        except re.error:  # reported as another mistake
            return False


@dataclass(frozen=True)
class Sink:
    """The sink of a pipeline."""

    format: str
    servers: str
    topic: str | None
    path: str | None
    partition_by: tuple[str, ...]
    mode: str
    options: dict[str, str]
    keep: str = ALL  # of a lake: every record, or the latest of each key
    table: str | None = None  # of Iceberg
    catalog: dict[str, str] = field(default_factory=dict)  # of Iceberg
    offsets: str = TRANSLATED  # of a mirror
    exactly_once: bool | None = None  # of a topic


@dataclass(frozen=True)
class Errors:
    """The topics for rows that cannot be read. Without a topic, such a row ends the pipeline."""

    retries: int = 0
    retry_topic: str | None = None
    dlq: str | None = None


@dataclass(frozen=True)
class RunSpec:
    """Where and how often the pipeline runs. `interval_ms` None: once, on all current records."""

    master: str = "local[*]"
    interval_ms: int | None = None
    checkpoint: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    give_up_ms: int | None = None  # how long brokers may be unreachable; None: for ever


@dataclass(frozen=True)
class Spec:
    """A pipeline."""

    name: str
    kind: str
    source: SourceSpec
    sink: Sink
    transform: str | None
    delivery: str
    errors: Errors
    run: RunSpec


def load(path: Path) -> Spec:
    """The spec in a YAML file, which may also be JSON."""
    return parse(read_document(path))


def read_document(path: Path) -> object:
    """The content of a YAML file, not checked yet."""
    try:
        import yaml
    except ImportError:
        raise PipelineError("PyYAML is not installed: pip install 'barnabas[spark]'") from None
    if path.stat().st_size > _SIZE_MAX:
        raise PipelineError(f"{path} is larger than {_SIZE_MAX} bytes, the most for a spec")

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses a key that occurs twice; YAML would use the last one."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if isinstance(key.value, str) and key.value in seen:
                    named = f"{key.value[:SHOWN_MAX]!r} in line {key.start_mark.line + 1}"
                    raise yaml.YAMLError(f"the key {named} occurs twice")
                seen.add(key.value if isinstance(key.value, str) else None)
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    try:
        found: object = yaml.load(path.read_text(), Loader)  # noqa: S506 - it is a safe one
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as problem:
        said = " ".join(str(problem).split())[:200]
        raise PipelineError(f"{path} cannot be read: {said}") from None
    return found


def parse(document: object) -> Spec:
    """The spec, or SpecError with all mistakes."""
    top = Section("", document, [])
    spec = _spec(top)
    if top.mistakes:
        raise SpecError("\n".join(top.mistakes))
    return spec


def _spec(top: Section) -> Spec:
    name = top.text("name", needed="a name for the pipeline and its group")
    if name and not _NAME.fullmatch(name):
        top.wrong("name", name, "use letters, digits, dots, dashes and underscores, at most 200")
    mistakes = len(top.mistakes)
    kind = top.choice("kind", KINDS, "stream")
    source = _source(top.section("source"), name, kind)
    sink = _sink(top.section("sink"), kind, source)
    is_stream = kind == "stream" and len(top.mistakes) == mistakes
    transform = top.text("transform")
    if transform and not _FUNCTION.fullmatch(transform):
        top.wrong("transform", transform, 'name a function as "module:function"')
    if transform and kind != "stream":
        top.wrong("transform", transform, f"only kind stream has one, and this is {kind}: leave it")
    if is_stream and sink.format == "barnabas" and not sink.topic and not transform:
        top.wrong("sink.topic", None, "name the topic for the rows")
    delivery = _delivery(top, kind, sink)
    errors = _errors(top.section("errors"), kind, source)
    run = _run(top.section("run"), kind, sink.format)
    top.done()
    return Spec(name, kind, source, sink, transform or None, delivery, errors, run)


def _delivery(top: Section, kind: str, sink: Sink) -> str:
    if kind == "stream" and sink.format == "barnabas" and sink.exactly_once is None:
        return top.choice("delivery", (EXACTLY_ONCE, AT_LEAST_ONCE), BY_BROKERS)
    if kind == "stream":
        promised: tuple[str, ...] = (EXACTLY_ONCE if sink.exactly_once else AT_LEAST_ONCE,)
    else:
        promised = _DELIVERY[kind] if sink.offsets == TRANSLATED else (EXACTLY_ONCE,)
    return top.choice("delivery", promised, promised[0])


def _source(part: Section, name: str, kind: str) -> SourceSpec:
    servers = part.text("servers", needed="HOST:PORT of a broker")
    topics = part.names("topics")
    pattern = part.text("pattern")
    if bool(topics) == bool(pattern):
        part.wrong("topics", list(topics), "name topics, or a pattern, and not both")
    for topic in topics:
        part.check_topic("topics", topic)
    if pattern:
        try:
            re.compile(pattern)
        except re.error as problem:
            part.wrong("pattern", pattern, f"no regular expression: {problem}")
    format_ = part.choice("format", FORMATS, "bytes")
    schema, message = part.text("schema"), part.text("message")
    registry, subject = part.text("registry"), part.text("subject")
    if format_ != "bytes" and kind == "mirror":
        part.wrong("format", format_, "a mirror copies bytes: leave it out")
    elif format_ == "bytes":
        for key, value in (("schema", schema), ("message", message), ("registry", registry)):
            if value:
                part.wrong(key, value, "bytes have none: set format to json, avro or protobuf")
    elif not schema and not registry:
        part.wrong("schema", None, f"format {format_} needs one, the file it is in, or a registry")
    if format_ == "protobuf" and schema and not message:
        part.wrong("message", None, "format protobuf needs the message's name, e.g. shop.Order")
    found = SourceSpec(
        servers=servers,
        topics=topics,
        pattern=pattern or None,
        group=part.text("group") or name,
        starting=part.choice("starting", _STARTING, "earliest"),
        format=format_,
        schema=schema or None,
        message=message or None,
        registry=registry or None,
        subject=subject or None,
        options=part.pairs("options"),
    )
    if kind != "mirror":
        _check_options(part, found.options)
    part.done()
    return found


def _check_options(part: Section, options: dict[str, str]) -> None:
    """Checks the options of the source: Spark accepts any name, and does not report a
    misspelt one.
    """
    known = {name.lower(): None for name in SOURCE_NAMES}
    for name, value in options.items():
        if name.lower() not in known and not name.lower().startswith("kafka."):
            hint = nearest(name, dict.fromkeys(SOURCE_NAMES))
            part.wrong(f"options.{name}", value, f"the source has no such option{hint}")


def _sink(part: Section, kind: str, source: SourceSpec) -> Sink:
    formats = _SINKS[kind]
    format_ = part.choice("format", formats, formats[0]) if formats else "barnabas"
    servers, topic, path = part.text("servers"), part.text("topic"), part.text("path")
    if kind == "mirror":
        if not servers:
            part.wrong("servers", None, "HOST:PORT of a broker of the other cluster")
        elif servers == source.servers:
            part.wrong("servers", servers, "that is the source: name another cluster")
    if format_ in ("parquet", "delta") and not path:
        part.wrong("path", None, "a directory for the files")
    elif format_ == "parquet" and kind == "lake" and path_parts(path).scheme in _S3:
        part.wrong("path", path, "S3 cannot rename a directory: set format to delta or iceberg")
    elif format_ == "delta":
        place = path if path_parts(path).scheme in _S3 else local_path(path)
        if place is None:
            part.wrong("path", path, "use a directory that all see, or s3://BUCKET/PATH")
        elif odd := _NOT_DELTA.search(place):
            part.wrong("path", place, f"delta-rs cannot open paths with {odd[0]!r}: use another")
    here = kind == "stream" and servers in ("", source.servers)
    if topic and part.check_topic("topic", topic) and here and source.reads(topic):
        part.wrong("topic", topic, f"it is also a source, so rows {_READ_AGAIN}")
    table, catalog = _iceberg(part, format_, path)
    columns = part.names("partition_by")
    if format_ == "iceberg":
        check_partitions(part, columns)
    keep = part.choice("keep", (ALL, LATEST) if kind == "lake" else (ALL,), ALL)
    if keep == LATEST and format_ not in ("delta", "iceberg"):
        remedy = f"files of {format_} cannot be replaced: set format to delta or iceberg"
        part.wrong("keep", keep, remedy)
    if keep == LATEST and columns:
        part.wrong("partition_by", list(columns), "a table of latest rows has none: leave it out")
    places = (TRANSLATED, IDENTICAL) if kind == "mirror" else (TRANSLATED,)
    found = Sink(
        format=format_,
        servers=servers or source.servers,
        topic=topic or None,
        path=path or None,
        partition_by=columns or (_DAYS[format_] if kind == "lake" and keep == ALL else ()),
        mode=part.choice("mode", _MODES, "append"),
        options=part.pairs("options"),
        keep=keep,
        table=table,
        catalog=catalog,
        offsets=part.choice("offsets", places, TRANSLATED),
        exactly_once=part.yes("exactly_once"),
    )
    if found.exactly_once is not None and (kind, format_) != ("stream", "barnabas"):
        part.wrong("exactly_once", found.exactly_once, "only a stream to a topic has it: leave it")
    part.done()
    return found


def _iceberg(part: Section, format_: str, path: str) -> tuple[str | None, dict[str, str]]:
    """The table and the catalog."""
    table, catalog = part.text("table"), part.pairs("catalog")
    if format_ != "iceberg":
        for key, value in (("table", table), ("catalog", catalog)):
            if value:
                part.wrong(key, value, "only format iceberg has one: leave it out")
        return None, {}
    if path:
        part.wrong("path", path, "the catalog knows where the table is: name sink.table instead")
    if not table or not _TABLE.fullmatch(table):
        part.wrong("table", table or None, "name a table with its namespace: sales.orders")
    check_catalog(part, catalog)
    return table or None, catalog


def _errors(part: Section, kind: str, source: SourceSpec) -> Errors:
    found = Errors(
        retries=part.number("retries", _RETRIES_MAX),
        retry_topic=part.text("retry_topic") or None,
        dlq=part.text("dlq") or None,
    )
    if part.given and kind == "mirror":
        part.wrong("", None, "a mirror decodes no records, so it has no bad rows: remove this")
    elif part.given and not found.dlq:
        part.wrong("dlq", None, "name the topic for rows that stay bad")
    elif part.given and source.format == "bytes":
        part.wrong("dlq", found.dlq, "bytes are never bad: set source.format, or leave it out")
    for key, topic in (("dlq", found.dlq), ("retry_topic", found.retry_topic)):
        if topic and part.check_topic(key, topic):
            named = key == "retry_topic" and topic not in source.topics  # it is read anyway
            if source.reads(topic) and not named:
                part.wrong(key, topic, f"it is also a source, so bad rows {_READ_AGAIN}")
    if found.dlq and found.dlq == found.retry_topic:
        part.wrong("dlq", found.dlq, "it is the retry topic: name another")
    if found.retries and not found.retry_topic:
        part.wrong("retry_topic", None, f"{found.retries} retries need a topic to wait in")
    if found.retry_topic and not found.retries:
        part.wrong("retries", found.retries, "say how often, from 1 on")
    part.done()
    return found


def _run(part: Section, kind: str, format_: str) -> RunSpec:
    trigger = part.text("trigger") or AVAILABLE_NOW
    interval = None
    if trigger != AVAILABLE_NOW:
        interval = _time_ms(part, "trigger", trigger, f"use {AVAILABLE_NOW}, or a time such as 10s")
    give_up = part.text("give_up_after")
    give_up_ms = None
    if give_up and interval is None:
        part.wrong("give_up_after", give_up, "only a trigger with a time goes on: leave it out")
    elif give_up:
        give_up_ms = _time_ms(part, "give_up_after", give_up, "use a time such as 10m")
    master = part.text("master") or "local[*]"
    if not _MASTER.fullmatch(master):
        part.wrong("master", master, "use local[*], spark://HOST:PORT, yarn or k8s://HOST:PORT")
    checkpoint = part.text("checkpoint")
    if kind == "mirror" and checkpoint:
        part.wrong("checkpoint", checkpoint, "a mirror keeps its progress in the target: leave it")
    on_s3 = path_parts(checkpoint).scheme in _S3
    if on_s3 and (kind != "lake" or format_ not in ("delta", "iceberg")):
        remedy = "only a lake in Delta or Iceberg keeps it on S3: name a directory that all see"
        part.wrong("checkpoint", checkpoint, remedy)
    if kind != "mirror" and not checkpoint:
        part.wrong("checkpoint", None, "a directory in which Spark keeps the progress")
    found = RunSpec(master, interval, checkpoint or None, part.pairs("options"), give_up_ms)
    part.done()
    return found


def _time_ms(part: Section, key: str, text: str, remedy: str) -> int | None:
    matched = _INTERVAL.fullmatch(text)
    if matched is None or not int(matched[1]):
        part.wrong(key, text, remedy)
        return None
    return int(matched[1]) * _UNITS_MS[matched[2]]
