"""What DescribeConfigs shows: every option with its value, its source and its synonyms.

Always: the first synonym is the setting in force; the last is the default.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from barnabas.config import broker, topic
from barnabas.config.broker import BrokerConfig
from barnabas.config.option import Option
from barnabas.config.resolve import Layers, Setting, Source, names_on_broker
from barnabas.config.topic import TopicConfig


class Described(NamedTuple):
    """One option as DescribeConfigs answers it. A sensitive value's text is None."""

    name: str
    text: str | None
    source: Source
    read_only: bool
    sensitive: bool
    synonyms: list[Setting]
    type: int
    doc: str


def describe_topic(overrides: Mapping[str, str], layers: Layers) -> Iterator[Described]:
    """Every topic option, in the order of names."""
    config = TopicConfig(overrides, layers)
    for name, option in topic.ALL.items():
        text = config.text(option) if name in topic.OPTIONS else option.default
        settings = _on_broker(option, layers)
        if name in overrides:
            settings.insert(0, Setting(name, text, Source.DYNAMIC_TOPIC))
        yield _described(option, text, settings, read_only=False)


def describe_broker(layers: Layers) -> Iterator[Described]:
    """Every broker option, in the order of names."""
    config = BrokerConfig(layers)
    for option in broker.OPTIONS.values():
        settings = _on_broker(option, layers)
        yield _described(option, config.text(option), settings, read_only=option.needs_restart)


def _described(
    option: Option[Any], text: str | None, settings: list[Setting], read_only: bool
) -> Described:
    source = settings[0].source if settings else Source.DEFAULT
    return Described(
        option.name, text, source, read_only, False, settings, int(option.kind.type), option.doc
    )


def _on_broker(option: Option[Any], layers: Layers) -> list[Setting]:
    settings: list[Setting] = []
    for name in names_on_broker(option):
        settings.extend(layers.settings(name))
    for name in names_on_broker(option):
        synonym = broker.OPTIONS[name]
        if synonym.default is not None:
            settings.append(Setting(name, synonym.format(synonym.default), Source.DEFAULT))
    return settings
