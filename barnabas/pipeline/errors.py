"""One line for the user, whatever went wrong.

Spark shows a Python error with the trace of the worker that raised it, and that worker ends. For
an error of ours the trace says nothing a user could act on, so that it is left out.
"""

import functools
import os
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from barnabas.model.errors import KafkaError

P = ParamSpec("P")
R = TypeVar("R")


class PipelineError(Exception):
    """What is wrong, with which value, and what to do."""


class OptionError(PipelineError, ValueError):
    """An option that cannot be."""


class DataLoss(PipelineError):
    """Records that the query has not seen are gone, or will never be there."""


def one_line(call: Callable[P, R]) -> Callable[P, R]:
    """Let `call` fail with one line."""

    @functools.wraps(call)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except (KafkaError, PipelineError) as problem:
            raise _short(problem) from None

    return guarded


def one_line_each(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """The same for a generator."""

    @functools.wraps(call)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        try:
            yield from call(*args, **kwargs)
        except (KafkaError, PipelineError) as problem:
            raise _short(problem) from None

    return guarded


def _short(problem: Exception) -> PipelineError:
    # PySpark reads this when it reports the error, and ends the process right after.
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    return problem if isinstance(problem, PipelineError) else PipelineError(str(problem))


def shown(problem: Exception) -> str | None:
    """The one line that matters of an error that came through Spark; None if it did not."""
    if not type(problem).__module__.startswith(("pyspark.", "py4j.")):
        return None
    text = str(problem)
    for mark in ("PipelineError: ", "OptionError: ", "DataLoss: ", "[USER_RAISED_EXCEPTION] "):
        found = text.rfind(mark)
        if found >= 0:
            return text[found + len(mark) :].splitlines()[0].split(" SQLSTATE:")[0]
    return text.strip().splitlines()[0][:500] if text.strip() else type(problem).__name__
