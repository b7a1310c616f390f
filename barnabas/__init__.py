"""Barnabas: an event log that any Kafka client can use.

The names of the client are here: `from barnabas import Admin`; the same, blocking, in
`barnabas.sync`. Each is imported when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.client.admin import Admin

__version__ = "0.1.0"

__all__ = ["Admin"]

_WHERE = {"Admin": "barnabas.client.admin"}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'barnabas' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
