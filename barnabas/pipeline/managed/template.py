"""The specs of managed pipelines: what they have in common, and what a topic says.

In: a template in YAML, the options of a topic. Out: the spec of its pipeline.
Always: the options of a topic decide format, table and interval; the template says where tables and
checkpoints are, which no topic may choose: anybody who may alter a topic could write anywhere.
Pure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.config.topic import TopicConfig
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.section import Section
from barnabas.pipeline.run.spec import Spec, SpecError, parse

_NONE = "none"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OF_A_TOPIC = ("source", "errors", "sink", "run")


@dataclass(frozen=True)
class LakeTemplate:
    """`path`: for Delta tables. `topics`: parts of the specs of single topics. `client`: options of
    the Kafka client, such as a login.
    """

    servers: str
    checkpoint: str
    path: str = ""
    catalog: dict[str, str] = field(default_factory=dict)
    namespace: str = "topics"
    master: str = "local[*]"
    options: dict[str, str] = field(default_factory=dict)
    topics: Mapping[str, Any] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)


def parse_template(document: object) -> LakeTemplate:
    """The template, or SpecError with all mistakes."""
    top = Section("", document, [])
    topics = document.get("topics") if isinstance(document, dict) else None
    top.section("topics")
    found = LakeTemplate(
        servers=top.text("servers", needed="HOST:PORT of a broker"),
        checkpoint=top.text("checkpoint", needed="a directory, with a checkpoint for each topic"),
        path=top.text("path"),
        catalog=top.pairs("catalog"),
        namespace=top.text("namespace") or "topics",
        master=top.text("master") or "local[*]",
        options=top.pairs("options"),
        topics=topics if isinstance(topics, dict) else {},
        client=top.pairs("client"),
    )
    for name, parts in found.topics.items():
        if not isinstance(parts, dict) or set(parts) - set(_OF_A_TOPIC):
            top.wrong(f"topics.{name}", parts, f"expected some of {', '.join(_OF_A_TOPIC)}")
    top.done()
    if top.mistakes:
        raise SpecError("\n".join(top.mistakes))
    return found


def managed_document(template: LakeTemplate, topic: str, config: TopicConfig) -> dict[str, Any]:
    """The document of a spec; PipelineError if the template has no place for the table."""
    sink: dict[str, Any] = {"format": config.lake}
    if config.lake == "iceberg":
        if not template.catalog:
            raise PipelineError(f"topic {topic!r} asks for Iceberg: set catalog in the template")
        name = config.lake_table or f"{template.namespace}.{topic.replace('.', '_')}"
        sink |= {"table": name, "catalog": template.catalog}
    else:
        if not template.path:
            raise PipelineError(f"topic {topic!r} asks for Delta: set path in the template")
        name = config.lake_table or topic
        if not _NAME.fullmatch(name) or name.startswith("."):
            raise PipelineError(
                f"topic {topic!r}: lake.table: {name[:100]!r}: a Delta table is named with letters,"
                " digits, dots, dashes and underscores"
            )
        sink["path"] = f"{template.path.rstrip('/')}/{name}"
    document: dict[str, Any] = {
        "name": f"lake-{topic}",
        "kind": "lake",
        "source": {
            "servers": template.servers,
            "topics": [topic],
            "options": {f"kafka.{name}": value for name, value in template.client.items()},
        },
        "sink": sink,
        "run": {
            "master": template.master,
            "options": template.options,
            "trigger": f"{config.lake_lag_ms}ms",
            "checkpoint": f"{template.checkpoint.rstrip('/')}/{topic}",
        },
    }
    for section, values in template.topics.get(topic, {}).items():
        document[section] = {**document.get(section, {}), **(values or {})}
    return document


def managed_spec(
    template: LakeTemplate, topic: str, options: Mapping[str, str]
) -> tuple[Spec, dict[str, Any]] | None:
    """The spec and its document; None if the topic asks for no table."""
    if options.get("lake", _NONE) == _NONE:
        return None
    config = TopicConfig({name: value for name, value in options.items() if _is_lake(name)})
    document = managed_document(template, topic, config)
    return parse(document), document


def _is_lake(name: str) -> bool:
    return name == "lake" or name.startswith("lake.")


def waits(options: Mapping[str, str]) -> bool:
    """Whether retention waits for the table of the topic."""
    return options.get("lake.retention.wait") == "true"


def offsets_text(committed: Mapping[int, int]) -> str:
    """The value of `lake.offsets`: `committed` is by partition."""
    return ",".join(f"{number}:{offset}" for number, offset in sorted(committed.items()))
