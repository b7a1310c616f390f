"""Kinds of option values: parse text into a value, and format a value as text.

In: text from a file, a command line or a request. Out: a checked value.
Always: `kind.parse(kind.format(value)) == value`; a refusal says what would be accepted.
Not here: names, defaults and where a value came from (option.py, resolve.py).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TEXT_LENGTH_MAX = 32_767  # the longest string the older encodings of the protocol can carry


class ConfigType(IntEnum):
    """Types as DescribeConfigs numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Kind(ABC, Generic[T]):
    """One kind of value."""

    __slots__ = ()
    type: ConfigType = ConfigType.STRING

    @abstractmethod
    def parse(self, text: str) -> T:
        """ValueError says what was expected."""

    def format(self, value: T) -> str:
        return str(value)

    @abstractmethod
    def bounds(self) -> str:
        """What is accepted, for people."""


class Integer(Kind[int]):
    """A whole number of 32 or 64 bits between bounds."""

    __slots__ = ("max", "min", "type")
    unit = ""

    def __init__(self, min: int | None = None, max: int | None = None, bits: int = 32) -> None:
        ceiling = INT_MAX if bits == 32 else LONG_MAX
        self.min = -ceiling - 1 if min is None else min
        self.max = ceiling if max is None else max
        self.type = ConfigType.INT if bits == 32 else ConfigType.LONG

    def parse(self, text: str) -> int:
        stripped = text.strip()
        if len(stripped) > 20 or not _INTEGER.fullmatch(stripped):
            raise ValueError(f"expected {self.bounds()}")
        value = int(stripped)
        if not self.min <= value <= self.max:
            raise ValueError(f"expected {self.bounds()}")
        return value

    def bounds(self) -> str:
        noun = f"a whole number{self.unit}"
        lowest = self.min in (-INT_MAX - 1, -LONG_MAX - 1)
        highest = self.max in (INT_MAX, LONG_MAX)
        if lowest and highest:
            return noun
        if highest:
            return f"{noun}, {self.min} or more"
        if lowest:
            return f"{noun}, {self.max} or less"
        return f"{noun} from {self.min} to {self.max}"


class Int(Integer):
    """A count of 32 bits."""

    __slots__ = ()

    def __init__(self, min: int | None = None, max: int | None = None) -> None:
        super().__init__(min, max, bits=32)


class Long(Integer):
    """A count of 64 bits."""

    __slots__ = ()

    def __init__(self, min: int | None = None, max: int | None = None) -> None:
        super().__init__(min, max, bits=64)


class Milliseconds(Integer):
    """A duration."""

    __slots__ = ()
    unit = " of milliseconds"

    def __init__(self, min: int | None = None, max: int | None = None, bits: int = 64) -> None:
        super().__init__(min, max, bits)


class Bytes(Integer):
    """A size."""

    __slots__ = ()
    unit = " of bytes"


class Bool(Kind[bool]):
    """true or false."""

    __slots__ = ()
    type = ConfigType.BOOLEAN

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in ("true", "false"):
            raise ValueError(f"expected {self.bounds()}")
        return word == "true"

    def format(self, value: bool) -> str:
        return "true" if value else "false"

    def bounds(self) -> str:
        return "true or false"


class Float(Kind[float]):
    """A fraction between bounds."""

    __slots__ = ("max", "min")
    type = ConfigType.DOUBLE

    def __init__(self, min: float, max: float) -> None:
        self.min = min
        self.max = max

    def parse(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"expected {self.bounds()}") from None
        if not self.min <= value <= self.max:  # also refuses nan
            raise ValueError(f"expected {self.bounds()}")
        return value

    def bounds(self) -> str:
        return f"a number from {self.min} to {self.max}"


class Text(Kind[str]):
    """Any text, bounded in length."""

    __slots__ = ()
    type = ConfigType.STRING

    def parse(self, text: str) -> str:
        if len(text) > _TEXT_LENGTH_MAX:
            raise ValueError(f"expected {self.bounds()}")
        return text

    def bounds(self) -> str:
        return f"text of at most {_TEXT_LENGTH_MAX} characters"


class Password(Text):
    """A secret: never shown, neither in DescribeConfigs nor in errors or logs."""

    __slots__ = ()
    type = ConfigType.PASSWORD


class Enum(Kind[str]):
    """One of a few words, spelled exactly so."""

    __slots__ = ("words",)
    type = ConfigType.STRING

    def __init__(self, *words: str) -> None:
        self.words = words

    def parse(self, text: str) -> str:
        word = text.strip()
        if word not in self.words:
            raise ValueError(f"expected {self.bounds()}")
        return word

    def bounds(self) -> str:
        return "one of " + ", ".join(self.words)


class List(Kind[tuple[str, ...]]):
    """Words separated by commas, each at most once; only `words` if they are given."""

    __slots__ = ("words",)
    type = ConfigType.LIST

    def __init__(self, *words: str) -> None:
        self.words = words

    def parse(self, text: str) -> tuple[str, ...]:
        if len(text) > _TEXT_LENGTH_MAX:
            raise ValueError(f"expected at most {_TEXT_LENGTH_MAX} characters")
        if not text.strip():
            return ()
        found = tuple(word.strip() for word in text.split(","))
        self.check(found)
        return found

    def check(self, found: Iterable[str]) -> None:
        seen: set[str] = set()
        for word in found:
            if not word or word in seen or (self.words and word not in self.words):
                raise ValueError(f"expected {self.bounds()}")
            seen.add(word)

    def format(self, value: tuple[str, ...]) -> str:
        return ",".join(value)

    def bounds(self) -> str:
        of = f", of {', '.join(self.words)}" if self.words else ""
        return f"words separated by commas, each once{of}"


class PartitionOffsets(List):
    """PARTITION:OFFSET between commas."""

    __slots__ = ()

    def check(self, found: Iterable[str]) -> None:
        for word in found:
            partition, colon, offset = word.partition(":")
            if not (colon and partition.isdecimal() and offset.isdecimal()) or len(word) > 40:
                raise ValueError(f"expected {self.bounds()}")

    def bounds(self) -> str:
        return "PARTITION:OFFSET between commas"


class ThrottledReplicas(List):
    """PARTITION:BROKER between commas, or * for all."""

    __slots__ = ()

    def check(self, found: Iterable[str]) -> None:
        words = tuple(found)
        if words == ("*",):
            return
        for word in words:
            partition, colon, broker = word.partition(":")
            if not (colon and partition.isdecimal() and broker.isdecimal()):
                raise ValueError(f"expected {self.bounds()}")

    def bounds(self) -> str:
        return "PARTITION:BROKER between commas, or * for all"


class Fixed(Kind[str]):
    """An option of Kafka that is not implemented: only its default is accepted."""

    __slots__ = ("only", "type")

    def __init__(self, only: str, type: ConfigType) -> None:
        self.only = only
        self.type = type

    def parse(self, text: str) -> str:
        if text.strip().lower() != self.only.lower():
            raise ValueError(f"Barnabas does not implement this option; expected {self.bounds()}")
        return self.only

    def bounds(self) -> str:
        return f"only {self.only!r}, Kafka's default"


class Address(NamedTuple):
    """Where to listen or connect."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class ListenerAddress(NamedTuple):
    """A named address, as in PLAINTEXT://localhost:9092. An empty host means every interface."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{Address(self.host, self.port)}"


def parse_address(text: str) -> Address:
    """HOST:PORT, with brackets around an IPv6 host. ValueError if it is not that."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("expected brackets around an IPv6 host, as in [::1]:9092")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise ValueError("expected HOST:PORT with a port from 0 to 65535")
    if any(c.isspace() or c in "/,@" for c in host):
        raise ValueError("expected a host name or address before the colon")
    return Address(host, int(port))


class HostPort(Kind[Address]):
    """HOST:PORT."""

    __slots__ = ()
    type = ConfigType.STRING

    def parse(self, text: str) -> Address:
        return parse_address(text)

    def bounds(self) -> str:
        return "HOST:PORT"


class Listeners(Kind[tuple[ListenerAddress, ...]]):
    """NAME://HOST:PORT between commas. Names are written in upper case, as Kafka does."""

    __slots__ = ()
    type = ConfigType.LIST

    def parse(self, text: str) -> tuple[ListenerAddress, ...]:
        found: dict[str, ListenerAddress] = {}
        for part in text.split(","):
            name, separator, rest = part.strip().partition("://")
            if not separator or not re.fullmatch(r"[A-Za-z0-9_-]+", name, re.ASCII):
                raise ValueError(f"expected {self.bounds()}")
            name = name.upper()
            host, port = parse_address(rest)
            if name in found:
                raise ValueError(f"expected {self.bounds()}, but {name} occurs twice")
            found[name] = ListenerAddress(name, host, port)
        return tuple(found.values())

    def format(self, value: tuple[ListenerAddress, ...]) -> str:
        return ",".join(map(str, value))

    def bounds(self) -> str:
        return "NAME://HOST:PORT between commas, each name once"
