"""Decides which of several settings of an option is in force.

In: text set for a topic, for this broker, for all brokers, and at start.
Out: a config object with every option's value, parsed.
Always: topic override > this broker's dynamic setting > the dynamic setting of all brokers >
the setting at start > the default; of synonyms, the earlier name wins whatever its layer.
Not here: what DescribeConfigs shows of it (describe.py).
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from barnabas.config.option import Option, Scope

_NOTHING: Mapping[str, str] = {}


class ConfigSource(IntEnum):
    """Where a setting comes from, as DescribeConfigs numbers it."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class Setting(NamedTuple):
    """One place where an option, or a synonym of it, is set."""

    name: str
    text: str | None
    source: ConfigSource


class Layers:
    """The settings of a broker, by where they were made. Text as it was set, by name."""

    __slots__ = ("by_source",)

    def __init__(
        self,
        static: Mapping[str, str] = _NOTHING,
        dynamic_default: Mapping[str, str] = _NOTHING,
        dynamic_broker: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.by_source: tuple[tuple[ConfigSource, Mapping[str, str]], ...] = (
            (ConfigSource.DYNAMIC_BROKER, dynamic_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, dynamic_default),
            (ConfigSource.STATIC_BROKER, static),
        )

    def settings(self, name: str) -> Iterator[Setting]:
        """Where the broker option of this name is set, the one in force first."""
        for source, texts in self.by_source:
            if name in texts:
                yield Setting(name, texts[name], source)

    def names(self) -> Iterator[str]:
        """Of every option that is set."""
        for _, texts in self.by_source:
            yield from texts


NO_LAYERS = Layers()


class Config:
    """Every option of one scope, parsed; each an attribute."""

    def __init__(
        self, options: Mapping[str, Option[Any]], overrides: Mapping[str, str], layers: Layers
    ) -> None:
        values = vars(self)
        for name, option in options.items():
            own = overrides.get(name)
            values[option.attribute] = (
                option.parse(own) if own is not None else _from_layers(option, layers)
            )

    def text(self, option: Option[Any]) -> str | None:
        """The value in force of an option, as text."""
        return option.format(getattr(self, option.attribute))


def names_on_broker(option: Option[Any]) -> tuple[str, ...]:
    """The broker options that may give this option its value, the strongest first."""
    if option.scope in (Scope.TOPIC, Scope.GROUP):
        return option.synonyms
    return (option.name, *option.synonyms)


def _from_layers(option: Option[Any], layers: Layers) -> Any:
    for name in names_on_broker(option):
        for setting in layers.settings(name):
            return _in_unit_of(option, name, setting.text or "")
    return option.default


def _in_unit_of(option: Option[Any], name: str, text: str) -> Any:
    """A synonym may count hours or minutes where the option counts milliseconds."""
    factor = {"hours": 3_600_000, "minutes": 60_000}.get(name.rpartition(".")[2], 1)
    if factor == 1 or option.name == name:
        return option.parse(text)
    count = int(text)
    return -1 if count < 0 else count * factor
