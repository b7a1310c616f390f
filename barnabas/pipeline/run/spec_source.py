"""The source section of a spec, as options for the reader of that source.

In: a spec. Out: options of `format("barnabas")`, or a mirror's two clusters, opened.
Not here: the options themselves (pipeline/spark/options.py), reading.
"""

from typing import TYPE_CHECKING

from barnabas.pipeline.run.spec import EXACTLY_ONCE, IDENTICAL, Spec

if TYPE_CHECKING:
    from barnabas.pipeline.mirror.mirroring import Mirroring


def mirroring_of(spec: Spec) -> "Mirroring":
    from barnabas.pipeline.mirror.mirroring import Mirroring

    return Mirroring(
        _client_options(spec, spec.source.servers),
        _client_options(spec, spec.sink.servers),
        name=spec.source.group,
        topics=spec.source.topics,
        pattern=spec.source.pattern,
        identical=spec.sink.offsets == IDENTICAL,
        once=spec.delivery == EXACTLY_ONCE,
    )


def _client_options(spec: Spec, servers: str) -> dict[str, str]:
    """Opens both clusters of a mirror. The options of its source apply to both clients."""
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
