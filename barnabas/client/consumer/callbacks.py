"""Calls functions of the user."""

import inspect
from collections.abc import Callable
from typing import Any


async def called(callback: Callable[..., Any] | None, *arguments: object) -> None:
    """A function of the user's, which may be a coroutine function."""
    if callback is not None:
        result = callback(*arguments)
        if inspect.isawaitable(result):
            await result
