"""What a consumer wants to read: topics by name, or all that match a pattern.

In: what the user gave; the topics that exist. Out: the topics that are wanted now.
Always: a pattern fits the whole name of a topic, as it does at a coordinator.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.config.option import invalid
from barnabas.model.ids import check_topic_name

Wanted = str | re.Pattern[str]
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class Subscription(NamedTuple):
    """Names, or a pattern."""

    names: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    def __bool__(self) -> bool:
        return bool(self.names) or self.pattern is not None

    def among(self, topics: Mapping[str, object], *, internal: bool) -> tuple[str, ...]:
        """Those of these topics that are wanted."""
        if self.pattern is None:
            return self.names
        return tuple(
            name
            for name in sorted(topics)
            if self.pattern.fullmatch(name) and (internal or name not in _INTERNAL)
        )


def subscription(wanted: Iterable[Wanted]) -> Subscription:
    """A text that starts with ^ is a pattern; patterns become one."""
    names: dict[str, None] = {}
    patterns: list[re.Pattern[str]] = []
    for one in wanted:
        if isinstance(one, re.Pattern):
            patterns.append(one)
        elif not isinstance(one, str):
            raise invalid(
                f"a topic is a name or a pattern, not {one!r:.100}: name several one by one, as in"
                ' Consumer("a", "b")'
            )
        elif one.startswith("^"):
            try:
                patterns.append(re.compile(one))
            except re.error as problem:
                raise invalid(f"topic pattern {one[:100]!r}: {problem}") from None
        else:
            names[check_topic_name(one)] = None
    if not patterns:
        return Subscription(tuple(names))
    if names:
        raise invalid("subscribe to topics by name, or to a pattern, not to both")
    if len(patterns) == 1:
        return Subscription(pattern=patterns[0])
    if any(one.flags != patterns[0].flags for one in patterns):
        raise invalid("several topic patterns must have the same flags")
    together = "|".join(f"(?:{one.pattern})" for one in patterns)
    return Subscription(pattern=re.compile(together, patterns[0].flags))
