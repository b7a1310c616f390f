"""Regular expressions with groups, matched in time linear in the text.

In: a pattern of Java's common syntax, a text. Out: whether the whole text matches; the text with
matches replaced. ValueError says what is wrong with a pattern.
Always: what Java would find first is found first (greedy, lazy, the left alternative), but no pair
of an instruction and a position is tried twice, so no pattern takes exponential time.
Not supported, and refused: look-arounds, back references, possessive repeats, flags, Unicode
classes, and repeats of what may match nothing (`(a*)*`): engines differ in what their groups hold.
Why not `re`: docs/adr/0018.
"""

from collections.abc import Callable
from typing import NamedTuple

PATTERN_LENGTH_MAX = 1_000
PROGRAM_LENGTH_MAX = 5_000
REPEAT_MAX = 100
TEXT_LENGTH_MAX = 4_096

Test = Callable[[str], bool]
_CLASSES: dict[str, Test] = {
    "d": lambda c: c.isdecimal() and c.isascii(),
    "w": lambda c: c == "_" or (c.isalnum() and c.isascii()),
    "s": lambda c: c in " \t\n\r\f\v",
}
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPECIAL = "*+?{"


class _Instruction(NamedTuple):
    """`test`: takes a character. `mark`: notes the position. `edge`: ^ or $. Otherwise it goes on
    at each of `then`, in this order; without one, the match is complete."""

    test: Test | None = None
    mark: int = -1
    edge: str = ""
    then: tuple[int, ...] = ()


class LinearRegex:
    """One pattern, compiled."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise ValueError(f"a pattern has at most {PATTERN_LENGTH_MAX} characters")
        self._pattern = pattern
        self._at = 0
        self._program: list[_Instruction] = [_Instruction()]
        self.groups = 0
        node = self._choice()
        if self._at < len(pattern):
            raise ValueError(f"the parenthesis at position {self._at} is not opened")
        start = self._build(node, 0)
        self._start = start
        close = self._emit(_Instruction(edge="$", then=(0,)))
        self._whole = self._build(node, close)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        _check_text(text)
        return self._run(self._whole, text, 0, set()) is not None

    def replace(self, text: str, replacement: str) -> str:
        """Every match, from left to right, replaced; `$1` is what group 1 matched."""
        _check_text(text)
        out: list[str] = []
        at = 0
        while at <= len(text):
            tried: set[tuple[int, int]] = set()
            found = None
            for start in range(at, len(text) + 1):
                found = self._run(self._start, text, start, tried)
                if found is not None:
                    break
            if found is None:
                break
            begin, end = found[0], found[1]
            out += (text[at:begin], self._expanded(replacement, text, found))
            if end == begin:
                out.append(text[end : end + 1])
                end += 1
            at = end
        out.append(text[at:])
        return "".join(out)

    # Matching

    def _run(
        self, first: int, text: str, start: int, tried: set[tuple[int, int]]
    ) -> list[int] | None:
        """Where the match and its groups begin and end; None if there is none at `start`."""
        marks = [-1] * (2 * self.groups + 2)
        marks[0] = start
        # What to try next; a negative instruction restores a mark after a failed attempt.
        todo: list[tuple[int, int]] = [(first, start)]
        while todo:
            number, at = todo.pop()
            if number < 0:
                marks[-number] = at
                continue
            if (number, at) in tried:
                continue
            tried.add((number, at))
            test, mark, edge, then = self._program[number]
            if test is not None:
                if at < len(text) and test(text[at]):
                    todo.append((then[0], at + 1))
            elif edge:
                if at == (0 if edge == "^" else len(text)):
                    todo.append((then[0], at))
            elif mark >= 0:
                todo.append((-mark, marks[mark]))
                marks[mark] = at
                todo.append((then[0], at))
            elif not then:
                marks[1] = at
                return marks
            else:
                todo += [(each, at) for each in reversed(then)]
        return None

    def _expanded(self, replacement: str, text: str, marks: list[int]) -> str:
        out: list[str] = []
        at = 0
        while at < len(replacement):
            char = replacement[at]
            at += 1
            if char == "\\" and at < len(replacement):
                out.append(replacement[at])
                at += 1
            elif char == "$" and replacement[at : at + 1].isdecimal():
                group, end = int(replacement[at]), at + 1
                while replacement[end : end + 1].isdecimal():
                    longer = group * 10 + int(replacement[end])
                    if longer > self.groups:
                        break
                    group, end = longer, end + 1
                if group > self.groups:
                    out.append(char)
                    continue
                at = end
                begin, stop = marks[2 * group], marks[2 * group + 1]
                out.append(text[begin:stop] if begin >= 0 else "")
            else:
                out.append(char)
        return "".join(out)

    # Compiling: from the last part to the first

    def _emit(self, instruction: _Instruction) -> int:
        if len(self._program) >= PROGRAM_LENGTH_MAX:
            raise ValueError("the pattern is too large: use fewer or smaller repeats")
        self._program.append(instruction)
        return len(self._program) - 1

    def _build(self, node: "_Node", after: int) -> int:
        kind = node.kind
        if kind == "sequence":
            for part in reversed(node.parts):
                after = self._build(part, after)
            return after
        if kind == "choice":
            return self._emit(
                _Instruction(then=tuple(self._build(part, after) for part in node.parts))
            )
        if kind == "group":
            after = self._emit(_Instruction(mark=2 * node.group + 1, then=(after,)))
            inner = self._build(node.parts[0], after)
            return self._emit(_Instruction(mark=2 * node.group, then=(inner,)))
        if kind == "repeat":
            return self._build_repeat(node, after)
        return self._emit(_Instruction(test=node.test, edge=node.edge, then=(after,)))

    def _build_repeat(self, node: "_Node", after: int) -> int:
        part = node.parts[0]
        if node.most != 1 and part.may_be_empty():
            raise ValueError("a part that may match nothing is repeated: repeat what it contains")
        if node.most is None:
            loop = self._emit(_Instruction())
            inner = self._build(part, loop)
            self._program[loop] = _Instruction(then=node.ordered(inner, after))
            entry = loop
        else:
            entry = after
            for _ in range(node.most - node.least):
                inner = self._build(part, entry)
                entry = self._emit(_Instruction(then=node.ordered(inner, after)))
        for _ in range(node.least):
            entry = self._build(part, entry)
        return entry

    # Parsing

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._peek()
        if not char:
            raise ValueError("the pattern ends too early")
        self._at += 1
        return char

    def _choice(self) -> "_Node":
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else _Node("choice", tuple(parts))

    def _sequence(self) -> "_Node":
        parts: list[_Node] = []
        while (char := self._peek()) and char not in "|)":
            parts.append(self._repeated(self._atom()))
        return _Node("sequence", tuple(parts))

    def _atom(self) -> "_Node":
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return _Node("test", test=self._set())
        if char == ".":
            return _Node("test", test=lambda c: c not in "\n\r")
        if char in "^$":
            return _Node("edge", edge=char)
        if char == "\\":
            return _Node("test", test=self._escape())
        if char in _SPECIAL:
            raise ValueError(f"there is nothing to repeat at position {self._at - 1}")
        return _Node("test", test=char.__eq__)

    def _group(self) -> "_Node":
        if self._peek() == "?":
            if not self._pattern.startswith("?:", self._at):
                raise ValueError("of groups with (?, only (?:...) is supported")
            self._at += 2
            group = 0
        else:
            self.groups += 1
            group = self.groups
        inner = self._choice()
        if self._peek() != ")":
            raise ValueError("a parenthesis is not closed")
        self._at += 1
        return _Node("group", (inner,), group=group) if group else inner

    def _repeated(self, node: "_Node") -> "_Node":
        while (char := self._peek()) and char in _SPECIAL:
            self._at += 1
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(char) or self._bounds()
            lazy = self._peek() == "?"
            if lazy:
                self._at += 1
            elif self._peek() == "+":
                raise ValueError("possessive repeats are not supported")
            node = _Node("repeat", (node,), least=least, most=most, lazy=lazy)
        return node

    def _bounds(self) -> tuple[int, int | None]:
        end = self._pattern.find("}", self._at)
        text = self._pattern[self._at : max(end, self._at)]
        low, comma, high = text.partition(",")
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()):
            raise ValueError("expected {N}, {N,} or {N,M}")
        self._at = end + 1
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if least > REPEAT_MAX or (most is not None and not least <= most <= REPEAT_MAX):
            raise ValueError(f"a repeat has bounds from 0 to {REPEAT_MAX}")
        return least, most

    def _escape(self) -> Test:
        char = self._next()
        if char.lower() in _CLASSES:
            test = _CLASSES[char.lower()]
            return (lambda c: not test(c)) if char.isupper() else test
        if char.isalnum():
            if char not in _CONTROL:
                raise ValueError(f"\\{char} is not supported")
            return _CONTROL[char].__eq__
        return char.__eq__

    def _set(self) -> Test:
        negated = self._peek() == "^"
        if negated:
            self._at += 1
        tests: list[Test] = []
        while (char := self._next()) != "]" or not tests:
            if char == "\\":
                tests.append(self._escape())
            elif char == "[" or self._pattern.startswith("&&", self._at - 1):
                raise ValueError("sets within sets are not supported")
            elif self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in (
                "]",
                "",
            ):
                self._at += 1
                high = self._next()
                if high == "\\" or high < char:
                    raise ValueError(f"the range {char}-{high} is not valid")
                tests.append(lambda c, low=char, high=high: low <= c <= high)  # type: ignore[misc]
            else:
                tests.append(char.__eq__)
        return lambda c: any(test(c) for test in tests) is not negated


class _Node(NamedTuple):
    kind: str
    parts: tuple["_Node", ...] = ()
    test: Test | None = None
    edge: str = ""
    group: int = 0
    least: int = 0
    most: int | None = None
    lazy: bool = False

    def ordered(self, inner: int, after: int) -> tuple[int, int]:
        """A lazy repeat would rather end."""
        return (after, inner) if self.lazy else (inner, after)

    def may_be_empty(self) -> bool:
        if self.kind == "choice":
            return any(part.may_be_empty() for part in self.parts)
        if self.kind == "repeat" and self.least == 0:
            return True
        return self.test is None and all(part.may_be_empty() for part in self.parts)


def _check_text(text: str) -> None:
    if len(text) > TEXT_LENGTH_MAX:
        raise ValueError(f"a text has at most {TEXT_LENGTH_MAX} characters")
