"""Lists of names: search, order and pages, all in the address."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from barnabas.console.application import Asked

T = TypeVar("T")
ROWS = 50


@dataclass(frozen=True)
class Listed:
    """One page of a list."""

    rows: Sequence[Any]
    total: int
    all: int
    page: int
    pages: int
    q: str
    sort: str
    base: str

    def link(self, **changes: object) -> str:
        """The address with these changes."""
        now = {"q": self.q, "sort": self.sort, "page": self.page}
        now.update(changes)
        kept = {name: value for name, value in now.items() if value not in ("", 1, None)}
        return f"{self.base}?{urlencode(kept)}" if kept else self.base


def listed(
    asked: Asked,
    items: Sequence[T],
    name_of: Callable[[T], str],
    orders: dict[str, Callable[[T], Any]],
    base: str,
    default: str,
) -> Listed:
    """`orders`: by name; those that begin with - are largest first."""
    q = asked.query("q")[:300]
    sort = asked.query("sort", default)
    if sort not in orders:
        sort = default
    page = max(1, asked.number("page", 1, 1_000_000))
    words = q.lower().split()
    found = [one for one in items if all(word in name_of(one).lower() for word in words)]
    found.sort(key=orders[sort], reverse=sort.startswith("-"))
    pages = max(1, -(-len(found) // ROWS))
    page = min(page, pages)
    rows = found[(page - 1) * ROWS : page * ROWS]
    return Listed(rows, len(found), len(items), page, pages, q, sort, base)
