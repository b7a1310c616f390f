"""Fields of values that the console does not show (--mask).

In: keys and values as bytes or decoded text. Out: the same, with *** for the fields.
Always: with a mask, a value that is not a JSON object or array is not shown at all, because its
fields are not known; a value is encoded again, so that nothing of a hidden field is left.
"""

import json
from typing import Any

MASKED = "***"
HIDDEN = b"(hidden by --mask: not a JSON object)"


class FieldMask:
    """By name, at any depth, in any case. Without a name, everything is shown."""

    def __init__(self, fields: tuple[str, ...] = ()) -> None:
        self._fields = frozenset(name.lower() for name in fields)

    def __bool__(self) -> bool:
        return bool(self._fields)

    def value(self, value: bytes | None) -> bytes | None:
        if value is None or not self._fields:
            return value
        found = self._masked(value)
        return HIDDEN if found is None else found

    def key(self, key: bytes | None) -> bytes | None:
        """A key that is not JSON is shown: it is what records are looked for by."""
        if key is None or not self._fields:
            return key
        found = self._masked(key)
        return key if found is None else found

    def _masked(self, value: bytes) -> bytes | None:
        if value.lstrip()[:1] not in (b"{", b"["):
            return None
        try:
            found = json.loads(value, object_pairs_hook=self._object)
            return json.dumps(found, ensure_ascii=False).encode(errors="backslashreplace")
        except (ValueError, RecursionError):
            return None

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: MASKED if name.lower() in self._fields else field for name, field in pairs}
