"""What a pipeline would do: its topics, where it stands, where its rows go. Changes nothing.

In: a spec. Out: lines for a user.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from barnabas.client.blocking.admin import Admin
from barnabas.model.errors import KafkaError
from barnabas.pipeline.cluster import Brokers, opened
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.options import source_options
from barnabas.pipeline.spec import IDENTICAL, Spec
from barnabas.pipeline.typed import columns_of, typed_options


def planned(spec: Spec) -> Iterator[str]:
    try:
        yield from _planned(spec)
    except KafkaError as problem:
        raise PipelineError(problem.detail, problem.code) from None


def _planned(spec: Spec) -> Iterator[str]:
    often = "once" if spec.run.interval_ms is None else f"every {spec.run.interval_ms} ms"
    yield f"{spec.name}: {spec.kind}, {spec.delivery}, {often} on {spec.run.master}"
    if spec.kind == "mirror":
        from barnabas.pipeline.mirror import Mirroring

        mirroring = Mirroring(
            client_options(spec, spec.source.servers),
            client_options(spec, spec.sink.servers),
            name=spec.source.group,
            topics=spec.source.topics,
            pattern=spec.source.pattern,
            identical=spec.sink.offsets == IDENTICAL,
        )
        chosen, missing = mirroring.plan()
        for topic in chosen:
            what = "to be created" if topic.name in missing else "is there"
            yield f"  {topic.name}: {len(topic.partitions)} partitions, {what} in the target"
        return
    given = source_of(spec)
    typed = typed_options(given)
    if typed is not None:
        columns_of(typed)
    brokers = Brokers(source_options(given, streaming=True))
    partitions = brokers.partitions()
    ends = brokers.latest(partitions, {})
    done = brokers.committed(spec.source.group, partitions)
    firsts = brokers.earliest(partitions)
    for name in sorted({at.topic for at in partitions}):
        here = [at for at in partitions if at.topic == name]
        waiting = sum(ends[at] - done.get(at, (firsts[at], ""))[0] for at in here)
        yield f"  {name}: {len(here)} partitions, {waiting} records to read"
    if spec.transform is not None:
        function(spec.transform)
        yield f"  through {spec.transform}"
    yield f"  to {spec.sink.format} {spec.sink.path or spec.sink.topic or ''}".rstrip()
    if spec.errors.dlq is not None:
        tries = f"{spec.errors.retries} times again by {spec.errors.retry_topic}, then "
        yield f"  bad rows {tries if spec.errors.retries else ''}to {spec.errors.dlq}"


def client_options(spec: Spec, servers: str) -> dict[str, str]:
    """Of a mirror: those of its source are of both clients."""
    given = {name.removeprefix("kafka."): value for name, value in spec.source.options.items()}
    return {**given, "bootstrap.servers": servers}


def source_of(spec: Spec) -> dict[str, str]:
    """The options of `format("barnabas")`."""
    source = spec.source
    given = {
        **source.options,
        "kafka.bootstrap.servers": source.servers,
        "startingOffsets": source.starting,
        "includeHeaders": "true",
    }
    if source.pattern is not None:
        given["subscribePattern"] = source.pattern
    else:
        given["subscribe"] = ",".join(source.topics)
    if source.format != "bytes":
        given["valueFormat"] = source.format
        named = {
            "valueSchema": source.schema,
            "valueMessage": source.message,
            "schemaRegistry": source.registry,
            "valueSubject": source.subject,
        }
        given |= {name: value for name, value in named.items() if value is not None}
    return given


def function(named: str) -> Any:
    """`module:function`, looked for in the working directory too."""
    module, _, name = named.partition(":")
    look_here()
    try:
        found = getattr(import_module(module), name)
    except ImportError as problem:
        raise PipelineError(f"transform: {named!r}: {problem}; run it where {module} is") from None
    except AttributeError:
        raise PipelineError(f"transform: {named!r}: {module} has no function {name}") from None
    except (Exception, SystemExit) as problem:  # whatever stands in it
        raise PipelineError(
            f"transform: {named!r}: {module} cannot be imported: {told(problem)}"
        ) from problem
    if not callable(found):
        raise PipelineError(f"transform: {named!r} is no function")
    return found


def told(problem: BaseException) -> str:
    """An error of the user's code in one line, with the place it is in."""
    said = " ".join(f"{type(problem).__name__}: {problem}".split())
    if isinstance(problem, SyntaxError):  # says where, and has no place of its own
        return said
    where = problem.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    return (
        said if where is None else f"{said}, {where.tb_frame.f_code.co_filename}:{where.tb_lineno}"
    )


def look_here() -> None:
    """Modules may be in the working directory, also of an installed command."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def ensure_topic(servers: str, topic: str) -> None:
    """Topics for bad rows are made as they are needed."""
    from barnabas.model.errors import Code

    admin = Admin(cluster=opened({"bootstrap.servers": servers}))
    try:
        admin.create_topic(topic)
    except KafkaError as problem:
        if problem.code is not Code.TOPIC_ALREADY_EXISTS:
            raise
