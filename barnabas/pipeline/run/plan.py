"""The plan of a pipeline: its topics, its progress, where its rows go. Changes nothing.

In: a spec. Out: lines for a user.
Not here: running it (running.py).
"""

from collections.abc import Iterator

from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.formats.typed import columns_of, typed_options
from barnabas.pipeline.run.spec import AT_LEAST_ONCE, EXACTLY_ONCE, Spec
from barnabas.pipeline.run.spec_source import mirroring_of, source_of
from barnabas.pipeline.run.topic_sink import is_once
from barnabas.pipeline.run.transform import function
from barnabas.pipeline.spark.brokers import Brokers
from barnabas.pipeline.spark.options import source_options


def planned(spec: Spec) -> Iterator[str]:
    try:
        yield from _planned(spec)
    except KafkaError as problem:
        raise PipelineError(problem.detail, problem.code) from None


def _planned(spec: Spec) -> Iterator[str]:
    often = "once" if spec.run.interval_ms is None else f"every {spec.run.interval_ms} ms"
    delivery = spec.delivery
    if spec.kind == "stream":
        delivery = EXACTLY_ONCE if is_once(spec) else AT_LEAST_ONCE
    yield f"{spec.name}: {spec.kind}, {delivery}, {often} on {spec.run.master}"
    if spec.kind == "mirror":
        chosen, missing = mirroring_of(spec).plan()
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
    target = spec.sink.path or spec.sink.table or spec.sink.topic or ""
    yield f"  to {spec.sink.format} {target}".rstrip()
    if spec.errors.dlq is not None:
        tries = f"{spec.errors.retries} times again by {spec.errors.retry_topic}, then "
        yield f"  bad rows {tries if spec.errors.retries else ''}to {spec.errors.dlq}"
