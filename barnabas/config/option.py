"""An option, declared once: its declaration feeds the parser, DescribeConfigs and the docs.

In: a name and text. Out: a checked value, or INVALID_CONFIG that names the option, the
value and the remedy.
Always: an option belongs to one scope; every option of a scope is an attribute of that
scope's config class, named as the option with underscores for dots.
Not here: which setting has precedence (resolve.py).
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Generic, Self, TypeVar, overload

from barnabas.config.kinds import ConfigType, Kind
from barnabas.model.errors import Code, InvalidRequest

T = TypeVar("T")


class Scope(Enum):
    """What an option configures."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLIENT_METRICS = "client metrics"
    CLIENT = "client"


class Option(Generic[T]):
    """One option. On a config object, the attribute of this name is its value.

    `synonyms`: names of broker options that give an option of a topic or group its default, or
    older names of a broker option; the earlier ones win.
    """

    __slots__ = (
        "default", "doc", "kind", "name", "needs_restart", "scope", "synonyms",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        kind: Kind[Any],
        default: T,
        scope: Scope,
        needs_restart: bool,
        doc: str,
        synonyms: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.scope = scope
        self.needs_restart = needs_restart
        self.doc = doc
        self.synonyms = synonyms

    @overload
    def __get__(self, config: None, owner: type) -> Self: ...
    @overload
    def __get__(self, config: object, owner: type) -> T: ...
    def __get__(self, config: object | None, owner: type) -> Self | T:
        # A config object has its values in its own dictionary, which is searched before this.
        return self if config is None else self.default

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_").replace("-", "_")

    @property
    def has_effect(self) -> bool:
        """False: the option is accepted, stored and described, but no code reads it."""
        from barnabas.config.no_effect import NO_EFFECT  # only for texts, so not imported at start

        return self.name not in NO_EFFECT[self.scope.value]

    def parse(self, text: str) -> T:
        try:
            value: T = self.kind.parse(text)
        except ValueError as problem:
            shown = text if len(text) <= 100 else text[:100] + "..."
            if self.kind.type is ConfigType.PASSWORD:
                shown = "[hidden]"
            raise invalid(f"{self.scope.value} option {self.name} = {shown!r}: {problem}") from None
        return value

    def format(self, value: T) -> str | None:
        return None if value is None else self.kind.format(value)

    def for_topics(self, name: str, default: T | None = None) -> "Option[T]":
        """The broker option that gives this topic option its default."""
        return Option(
            name=name,
            kind=self.kind,
            default=self.default if default is None else default,
            scope=Scope.BROKER,
            needs_restart=False,
            doc=f"Default of the topic option {self.name}. {self.doc}",
        )


def invalid(detail: str) -> InvalidRequest:
    return InvalidRequest(Code.INVALID_CONFIG, detail)


def declared(config: type) -> Iterator[Option[Any]]:
    """The options of a config class, in the order of their names."""
    found = {
        option.name: option
        for owner in config.__mro__
        for option in vars(owner).values()
        if isinstance(option, Option)
    }
    return iter([found[name] for name in sorted(found)])


def nearest(name: str, known: Mapping[str, object]) -> str:
    """A hint for an unknown name; empty if no known name is similar."""
    from difflib import get_close_matches  # only ever needed to word an error

    close = get_close_matches(name[:100], list(known), n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""


def check_servers(value: object, said: str) -> None:
    """Refuse a value of bootstrap.servers that names no broker."""
    if value is None:
        raise invalid(f"{said} is None: name a broker, as in 'localhost:9092', or leave it out")
    if not value and isinstance(value, str | tuple | list):
        raise invalid(f"{said} names no broker: name one, as in 'localhost:9092', or leave it out")
    names = value if isinstance(value, tuple | list) else (value,)
    if not all(isinstance(each, str) for each in names):
        raise invalid(
            f"{said} is {value!r:.100}: name brokers as a text or a list of texts, as in"
            " 'localhost:9092'"
        )


def text_of(value: object, said: str, secret: bool = False) -> str:
    """A value of Python as the text of an option."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    if isinstance(value, str | int | float):
        return str(value)
    shown = "[hidden]" if secret else f"{value!r:.100}"
    raise invalid(f"{said} is {shown}: expected a text, a number, a bool or a list of texts")
