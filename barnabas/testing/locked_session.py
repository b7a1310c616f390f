"""A session of the store in memory that a broker uses from its own threads: one call at a time."""

import threading
from typing import cast

from barnabas.keeper.keeper import Keeper
from barnabas.keeper.memory import MemoryKeeper


class LockedSession:
    """Every call of the keeper takes the lock, which the sessions of one store share."""

    def __init__(self, keeper: MemoryKeeper, lock: threading.RLock) -> None:
        self._keeper = keeper
        self._lock = lock

    def __getattr__(self, name: str) -> object:
        found = getattr(self._keeper, name)
        if not callable(found):
            return found

        def call(*arguments: object, **options: object) -> object:
            with self._lock:
                return found(*arguments, **options)

        return call


def locked_session(keeper: MemoryKeeper, lock: threading.RLock) -> Keeper:
    return cast(Keeper, LockedSession(keeper, lock))
