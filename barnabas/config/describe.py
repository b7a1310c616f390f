"""The values for DescribeConfigs: every option with its value, its source and its synonyms.

Always: the first synonym is the effective setting; the last is the default.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from barnabas.config import broker, topic
from barnabas.config.broker import BrokerConfig
from barnabas.config.kinds import ConfigType
from barnabas.config.listener_options import PREFIX, check_name, renamed
from barnabas.config.option import Option
from barnabas.config.resolve import ConfigSource, Layers, Setting, names_on_broker
from barnabas.config.topic import TopicConfig


class Described(NamedTuple):
    """One option as DescribeConfigs answers it. A sensitive value's text is None."""

    name: str
    text: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: list[Setting]
    type: int
    doc: str


def describe_topic(overrides: Mapping[str, str], layers: Layers) -> Iterator[Described]:
    """Every topic option, in the order of names; options that Kafka does not have only if they are
    set.
    """
    config = TopicConfig(overrides, layers)
    for name, option in topic.ALL.items():
        if name in topic.OWN and name not in overrides:
            continue
        text = config.text(option) if name in topic.OPTIONS else option.default
        settings = _on_broker(option, layers)
        if name in overrides:
            settings.insert(0, Setting(name, text, ConfigSource.DYNAMIC_TOPIC))
        yield _described(option, text, settings, read_only=False)


def describe_broker(
    layers: Layers, in_force: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Described]:
    """Every broker option, including Kafka's options without an effect here, in the order of names.

    `in_force`: the actual values in a running broker, such as the port for port 0.
    """
    from barnabas.config import kafka_options  # hundreds of options: not imported at start

    config = BrokerConfig(layers)
    others = {
        name: _not_declared(name)
        for name in (*kafka_options.OPTIONS, *layers.names())
        if name not in broker.OPTIONS
    }
    for name, option in sorted({**broker.OPTIONS, **others}.items()):
        settings = _on_broker(option, layers)
        if name in others:
            text = settings[0].text if settings else None
        else:
            text = in_force.get(name, config.text(option))
            if name in in_force and (not settings or settings[0].text != text):
                settings = [
                    Setting(name, text, ConfigSource.STATIC_BROKER),
                    *(each for each in settings if each.source is not ConfigSource.STATIC_BROKER),
                ]
        yield _described(option, text, settings, read_only=option.needs_restart)


def _not_declared(name: str) -> Option[Any]:
    """Of one listener, or without an effect here."""
    from barnabas.config import kafka_options

    if name.startswith(PREFIX):
        return renamed(broker.OPTIONS[check_name(name, broker.OPTIONS)], name)
    return kafka_options.ignored_option(name)


def describe_group(settings: Mapping[str, str], layers: Layers) -> Iterator[Described]:
    """Every group option, in the order of names; options that Kafka does not have only if they are
    set."""
    from barnabas.config import group, kafka_options

    config = group.GroupConfig(settings, layers)
    for name, option in group.ALL.items():
        if name in group.OWN and name not in settings:
            continue
        text = config.text(option) if name in group.OPTIONS else option.default
        if name in group.OPTIONS:
            found = _on_broker(option, layers)
        else:
            broker_name = f"group.{name}"
            shown = broker_name if broker_name in kafka_options.OPTIONS else name
            found = [Setting(shown, text, ConfigSource.DEFAULT)]
        if name in settings:
            found.insert(0, Setting(name, text, ConfigSource.DYNAMIC_GROUP))
        yield _described(option, text, found, read_only=False)


def describe_client_metrics(settings: Mapping[str, str]) -> Iterator[Described]:
    from barnabas.config import client_metrics

    for name, option in client_metrics.ALL.items():
        own = settings.get(name)
        found = [] if own is None else [Setting(name, own, ConfigSource.DYNAMIC_CLIENT_METRICS)]
        text = option.format(option.default) if own is None else own
        yield _described(option, text, found, read_only=False)


def _described(
    option: Option[Any], text: str | None, settings: list[Setting], read_only: bool
) -> Described:
    source = settings[0].source if settings else ConfigSource.DEFAULT
    sensitive = option.kind.type is ConfigType.PASSWORD
    return Described(
        option.name, text, source, read_only, sensitive, settings, int(option.kind.type), option.doc
    )


def _on_broker(option: Option[Any], layers: Layers) -> list[Setting]:
    settings: list[Setting] = []
    for name in names_on_broker(option):
        settings.extend(layers.settings(name))
    for name in names_on_broker(option):
        synonym = option if name == option.name else broker.OPTIONS[name]
        if synonym.default is not None:
            settings.append(Setting(name, synonym.format(synonym.default), ConfigSource.DEFAULT))
    return settings
