"""Reads a mapping of a document key by key, and collects its mistakes, one line each.

In: a parsed YAML document, not trusted. Out: text, numbers, names; mistakes with key, value and
remedy.
Always: a value of the wrong type is a mistake, and the default is used in its place, so that all
mistakes are found.
"""

import reprlib
from collections.abc import Mapping
from typing import Any

from barnabas.config.option import nearest
from barnabas.model.errors import InvalidRequest
from barnabas.model.ids import check_topic_name

SHOWN_MAX = 60
_REPR = reprlib.Repr()  # one line of YAML can describe a value that fills the memory
_REPR.maxstring = _REPR.maxother = 2 * SHOWN_MAX


class Section:
    """A mapping of the document. Keys that are not read are mistakes."""

    def __init__(self, name: str, document: object, mistakes: list[str]) -> None:
        self._name = name
        self.mistakes = mistakes
        self._known: dict[str, None] = {}
        self._values: Mapping[Any, Any] = {}
        self.given = document is not None
        if isinstance(document, dict):
            self._values = document
        elif self.given or not name:
            got = shown(document)
            mistakes.append(f"{name or 'the spec'}: expected keys and values, got {got}")

    def wrong(self, key: str, value: object, remedy: str) -> None:
        named = ".".join(part for part in (self._name, key) if part)
        got = "" if value is None or value == [] else f" {shown(value)}"
        self.mistakes.append(f"{named}:{got or ' missing'}: {remedy}")

    def check_topic(self, key: str, topic: str) -> bool:
        try:
            check_topic_name(topic)
        except InvalidRequest as problem:
            self.wrong(key, topic, problem.detail)
            return False
        return True

    def _take(self, key: str) -> Any:
        self._known[key] = None
        return self._values.get(key)

    def section(self, key: str) -> "Section":
        return Section(key, self._take(key), self.mistakes)

    def text(self, key: str, *, needed: str = "") -> str:
        value = self._take(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if value is None or value == "":
            if needed:
                self.wrong(key, None, needed)
            return ""
        if not isinstance(value, str):
            self.wrong(key, value, "expected text")
            return ""
        return value.strip()

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        value = self.text(key)
        if value and value not in choices:
            hint = nearest(value, dict.fromkeys(choices))
            self.wrong(key, value, f"use {' or '.join(choices)}{hint}")
        return value if value in choices else default

    def yes(self, key: str) -> bool | None:
        """None if it is not given."""
        found = self._take(key)
        if found is not None and not isinstance(found, bool):
            self.wrong(key, found, "use true or false")
            return None
        return found

    def number(self, key: str, most: int) -> int:
        value = self._take(key)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            self.wrong(key, value, f"use a number from 0 to {most}")
            return 0
        return value

    def names(self, key: str) -> tuple[str, ...]:
        value = self._take(key)
        if value is None:
            return ()
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        if not isinstance(value, list) or not all(isinstance(n, str) and n for n in value):
            self.wrong(key, value, "expected a list of names")
            return ()
        return tuple(value)

    def pairs(self, key: str) -> dict[str, str]:
        value = self._take(key)
        if value is None:
            return {}
        plain = isinstance(value, dict) and all(
            isinstance(name, str) and isinstance(each, str | int | float | bool)
            for name, each in value.items()
        )
        if not plain:
            self.wrong(key, value, "expected options with their values")
            return {}
        return {
            name: str(each).lower() if isinstance(each, bool) else str(each)
            for name, each in value.items()
        }

    def done(self) -> None:
        for key in self._values:
            if key not in self._known:
                hint = nearest(str(key), self._known) or f"; the keys are {', '.join(self._known)}"
                value = self._values[key]
                self.wrong(str(key)[:SHOWN_MAX], value, f"no such key{hint}")


def shown(value: object) -> str:
    text = _REPR.repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
