"""Parses a regular expression in RE2's syntax, for topic names.

In: the text of a pattern. Out: a syntax tree, or an InvalidRequest that says what is wrong and
where.
Always: bounded for any text: length, depth, and size with repetitions expanded.
Not here: matching (patterns.py).

Topic names have letters, digits, '.', '_' and '-': a character set is a subset of these, and other
characters match nothing. Not supported: back references, look-arounds, word boundaries, Unicode
classes.
"""

from dataclasses import dataclass
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits
from typing import TypeAlias

from barnabas.model.errors import Code, InvalidRequest

ALPHABET = frozenset(ascii_letters + digits + "._-")
PATTERN_CHARS_MAX = 1_000
DEPTH_MAX = 50
REPEAT_MAX = 1_000
NODES_MAX = 2_000

_WORD = frozenset(ascii_letters + digits + "_")
_CLASSES = {
    "d": frozenset(digits),
    "w": _WORD,
    "s": frozenset(),
    "D": ALPHABET - frozenset(digits),
    "W": ALPHABET - _WORD,
    "S": ALPHABET,
}
_POSIX = {
    "alnum": frozenset(ascii_letters + digits),
    "alpha": frozenset(ascii_letters),
    "ascii": ALPHABET,
    "digit": frozenset(digits),
    "graph": ALPHABET,
    "lower": frozenset(ascii_lowercase),
    "print": ALPHABET,
    "punct": ALPHABET - frozenset(ascii_letters + digits),
    "upper": frozenset(ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(digits + "abcdefABCDEF"),
    "blank": frozenset(),
    "cntrl": frozenset(),
    "space": frozenset(),
}
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Chars:
    """One of these characters."""

    chars: frozenset[str]


@dataclass(frozen=True, slots=True)
class Edge:
    """The start of the name, or its end."""

    at_end: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """At least `least` times; at most `most` times, or any number."""

    part: "Node"
    least: int
    most: int | None


Node: TypeAlias = Chars | Edge | Sequence | Choice | Repeat


def parse(pattern: str) -> Node:
    if len(pattern) > PATTERN_CHARS_MAX:
        raise InvalidRequest(
            Code.INVALID_REGULAR_EXPRESSION,
            f"the pattern has {len(pattern)} characters, more than {PATTERN_CHARS_MAX}",
        )
    reader = _Reader(pattern)
    node = reader.choice()
    if not reader.at_end():
        raise reader.wrong("a ')' has no matching '('")
    if size(node) > NODES_MAX:
        raise reader.wrong(f"its repetitions expand to more than {NODES_MAX} steps")
    return node


def size(node: Node) -> int:
    """The number of steps with every repetition expanded."""
    match node:
        case Sequence(parts) | Choice(parts):
            return 1 + sum(size(part) for part in parts)
        case Repeat(part, least, most):
            return 1 + size(part) * max(1, least if most is None else most)
        case _:
            return 1


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.any_case = False

    def at_end(self) -> bool:
        return self.at >= len(self.text)

    def wrong(self, what: str) -> InvalidRequest:
        return InvalidRequest(
            Code.INVALID_REGULAR_EXPRESSION,
            f"pattern {self.text[:200]!r}, at character {self.at}: {what}",
        )

    def take(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def next(self) -> str:
        if self.at_end():
            raise self.wrong("it ends in the middle of an expression")
        self.at += 1
        return self.text[self.at - 1]

    # In the order of precedence, lowest first

    def choice(self) -> Node:
        any_case = self.any_case
        parts = [self.sequence()]
        while self.take("|"):
            parts.append(self.sequence())
        self.any_case = any_case  # a flag holds to the end of its group
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while not self.at_end() and self.text[self.at] not in "|)":
            if self.take("\\Q"):
                end = self.text.find("\\E", self.at)
                quoted = self.text[self.at : end if end >= 0 else None]
                self.at += len(quoted) + (2 if end >= 0 else 0)
                parts += (self.char(char) for char in quoted)
                if not quoted:
                    continue
                parts[-1] = self.repeated(parts[-1])
                continue
            atom = self.atom()
            if atom is not None:
                parts.append(self.repeated(atom))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self, atom: Node) -> Node:
        bounds = self.bounds()
        if bounds is None:
            return atom
        self.take("?")  # lazy or greedy, the same names match
        if self.bounds() is not None:
            raise self.wrong("a repetition follows a repetition; put the first in parentheses")
        least, most = bounds
        return Repeat(atom, least, most)

    def bounds(self) -> tuple[int, int | None] | None:
        if self.take("*"):
            return 0, None
        if self.take("+"):
            return 1, None
        if self.take("?"):
            return 0, 1
        end = self.text.find("}", self.at)
        if not self.text.startswith("{", self.at) or end < 0:
            return None
        least, comma, most = self.text[self.at + 1 : end].partition(",")
        if not least.isdecimal() or not (most.isdecimal() or most == ""):
            return None  # not a repetition: a literal brace
        low = int(least[:5])
        high = int(most[:5]) if most else (None if comma else low)
        if low > REPEAT_MAX or (high is not None and (high > REPEAT_MAX or high < low)):
            raise self.wrong(
                f"a repetition must be between 0 and {REPEAT_MAX}, the smaller number first"
            )
        self.at = end + 1
        return low, high

    def atom(self) -> Node | None:
        char = self.next()
        match char:
            case "(":
                return self.group()
            case "[":
                return self.char_class()
            case ".":
                return Chars(ALPHABET)
            case "^":
                return Edge(at_end=False)
            case "$":
                return Edge(at_end=True)
            case "*" | "+" | "?":
                self.at -= 1
                raise self.wrong(f"{char!r} has nothing to repeat")
            case "\\":
                return self.escape()
            case _:
                return self.char(char)

    def group(self) -> Node | None:
        any_case = self.any_case
        if self.take("?"):
            if self.take("P<") or (self.text[self.at : self.at + 1] == "<" and self.take("<")):
                name = self.text[self.at : self.text.find(">", self.at)]
                if not name.isidentifier():
                    raise self.wrong("this group name or look-behind is not supported")
                self.at += len(name) + 1
            elif not self.flags():
                return None  # flags for what follows
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.wrong(f"parentheses are nested deeper than {DEPTH_MAX}")
        inner = self.choice()
        self.depth -= 1
        if not self.take(")"):
            raise self.wrong("a '(' has no matching ')'")
        self.any_case = any_case
        return inner

    def flags(self) -> bool:
        """Does a group follow the flags? If not, they hold for the rest of the enclosing group."""
        on = True
        while True:
            char = self.next()
            if char == "i":
                self.any_case = on
            elif char == "-":
                on = False
            elif char in ":)":
                return char == ":"
            elif char not in "msU":  # multi-line and lazy flags make no difference for a name
                raise self.wrong(f"(?{char}: look-arounds and this flag are not supported")

    def char(self, char: str) -> Chars:
        return Chars(self.in_case(frozenset(char)) & ALPHABET)

    def in_case(self, chars: frozenset[str]) -> frozenset[str]:
        if not self.any_case:
            return chars
        return chars | {c.lower() for c in chars} | {c.upper() for c in chars}

    def escape(self) -> Node:
        char = self.next()
        if char in _CLASSES:
            return Chars(_CLASSES[char])
        if char in "Az":
            return Edge(at_end=char == "z")
        return self.char(self.escaped(char))

    def escaped(self, char: str) -> str:
        """One character after a backslash."""
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "x":
            if self.take("{"):
                end = self.text.find("}", self.at)
                number = self.text[self.at : max(self.at, end)]
                self.at = end + 1
            else:
                number = self.text[self.at : self.at + 2]
                self.at += 2
            try:
                return chr(int(number, 16))
            except (ValueError, OverflowError):
                raise self.wrong(f"\\x{number[:20]} is not a character") from None
        if char.isalnum():
            raise self.wrong(f"\\{char} is not supported")
        return char

    def char_class(self) -> Chars:
        negated = self.take("^")
        chars: frozenset[str] = frozenset()
        first = True
        while first or not self.take("]"):
            first = False
            if self.take("[:"):
                chars |= self.posix()
                continue
            low = self.class_char()
            if isinstance(low, frozenset):
                chars |= low
            elif self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                high = self.class_char()
                if isinstance(high, frozenset) or high < low:
                    raise self.wrong("the end of a range is before its start")
                chars |= {c for c in ALPHABET if low <= c <= high}
                if self.any_case:  # also of characters outside of names: K is in [\u212a]
                    chars |= self.in_case(chars)
            else:
                chars |= self.in_case(frozenset(low))
        chars &= ALPHABET
        return Chars(ALPHABET - chars if negated else chars)

    def class_char(self) -> str | frozenset[str]:
        char = self.next()
        if char != "\\":
            return char
        char = self.next()
        return _CLASSES[char] if char in _CLASSES else self.escaped(char)

    def posix(self) -> frozenset[str]:
        end = self.text.find(":]", self.at)
        name = self.text[self.at : max(self.at, end)]
        chars = _POSIX.get(name.removeprefix("^"))
        if chars is None:
            raise self.wrong(f"there is no class [:{name[:20]}:]")
        self.at = end + 2
        return ALPHABET - chars if name.startswith("^") else self.in_case(chars)
