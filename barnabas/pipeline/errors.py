"""Errors of pipelines, each shown to the user as one line.

Spark shows a Python error with the trace of the worker that raised it, and that worker ends. For an
error of ours the trace does not help the user, so it is left out. `from_spark` reduces an error
that comes through Spark, in many lines of Java, to the line that matters.
"""

import functools
import os
import re
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from barnabas.model.errors import Code, KafkaError

P = ParamSpec("P")
R = TypeVar("R")

_LINE_SIZE_MAX = 500
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] ")  # Spark's name of an error
_JAVA = re.compile(r"(: |Caused by: )?([a-z]\w*\.)+[A-Z][\w$]*(Exception|Error): ")
_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)+[\w$]+: (.+)$", re.MULTILINE)
_ENDED = "terminated with exception: "
_TRACE = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s+File "([^"]+)", line (\d+)')
_NOT_LOADED = "Failed to find the data source: barnabas"
_NO_REASON = "Writing job failed"  # what Spark says if a batch could not even be aborted
_CAUSES_MAX = 10
_RUN_AGAIN = ". Run this again when that broker is running"
_MARKS = ("PipelineError: ", "OptionError: ", "DataLoss: ", "[USER_RAISED_EXCEPTION] ")


class PipelineError(Exception):
    """The text says what is wrong, with which value, and what to do. `code`: the broker's error
    code, if a broker reported the error.
    """

    def __init__(self, said: str, code: Code | None = None) -> None:
        super().__init__(said)
        self.code = code

    def __reduce__(self) -> tuple[type["PipelineError"], tuple[str, Code | None]]:
        return type(self), (str(self), self.code)


class OptionError(PipelineError, ValueError):
    """An option has an invalid value."""


class DataLoss(PipelineError):
    """Records that the query has not read are deleted, or will never exist."""


def one_line(call: Callable[P, R]) -> Callable[P, R]:
    """Decorates `call` so that its errors are one line."""

    @functools.wraps(call)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except (KafkaError, PipelineError) as problem:
            raise _short(problem) from None

    return guarded


def one_line_each(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """As `one_line`, for a generator."""

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
    if isinstance(problem, PipelineError):
        code = problem.code
        if code is None or str(problem).startswith(f"{code.name}: "):
            return problem
        return type(problem)(f"{code.name}: {problem}", code)  # Spark carries the text only
    is_away = isinstance(problem, KafkaError) and problem.code is Code.NETWORK_EXCEPTION
    return PipelineError(_away(str(problem)) if is_away else str(problem))


def _away(said: str) -> str:
    """The error for a broker that stopped answering. The client reports a broker that never
    answered.
    """
    code, _, detail = said.partition(": ")
    if detail.startswith("no broker at "):
        return said
    return f"{code}: no answer from {detail}{_RUN_AGAIN}"


def from_spark(problem: Exception) -> PipelineError | None:
    """The line that matters of an error that came through Spark; None for other errors."""
    if not type(problem).__module__.startswith(("pyspark.", "py4j.")):
        return None
    cause: object = problem
    for _ in range(_CAUSES_MAX):
        if cause is None or _NO_REASON not in str(cause).partition("\n")[0]:
            break
        cause = getattr(cause, "_cause", None)  # of Spark's own exception
    said = problem if cause is None else cause
    return from_text(str(said)) or PipelineError(type(problem).__name__)


def without_remedy(said: str) -> str:
    """For a pipeline that tries again by itself."""
    return said.removesuffix(_RUN_AGAIN)


def from_text(text: str) -> PipelineError | None:
    """The line that matters in Spark's output; None if the output is empty."""
    for mark in _MARKS:
        found = text.rfind(mark)
        if found >= 0:
            return _ours(text[found + len(mark) :].splitlines()[0].split(" SQLSTATE:")[0])
    said, text = _of_python(text)
    if said is not None:
        return PipelineError(said[:_LINE_SIZE_MAX])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    # Spark's own message without the name of the error, or else Java's message.
    said = next((line for line in lines if _CONDITION.search(line)), None)
    if said is None:
        said = next((line for line in lines if _JAVA.match(line)), lines[0])
        said = _JAVA.sub("", said)
    else:
        named = list(_CONDITION.finditer(said))[-1]
        said = said[named.end() :]
    said = said.rpartition(_ENDED)[2].split(" SQLSTATE:")[0].strip()
    if _NOT_LOADED in said:
        said = (
            f"{_python()} cannot load the format; to see why, run"
            f" {_python()} -c 'import pyspark_barnabas'"
        )
    return PipelineError(_with_root(said or lines[0], text)[:_LINE_SIZE_MAX])


def _of_python(text: str) -> tuple[str | None, str]:
    """The Python error and its location; if Python only passed on an error of Java, the
    Java error.
    """
    begin = text.rfind(_TRACE)
    if begin < 0:
        return None, text
    at = ""
    lines = text[begin:].splitlines()
    for number, line in enumerate(lines[1:], 1):
        frame = _FRAME.match(line)
        if frame is not None:
            at = f", {frame[1]}:{frame[2]}"
        elif line and not line[0].isspace():
            if line.startswith("py4j."):
                return None, "\n".join(lines[number + 1 :])
            if line.startswith("pyspark."):
                return None, "\n".join(lines[number:])
            return line.strip() + at, ""
    return None, text


def _with_root(said: str, text: str) -> str:
    """The last cause in Java's stack. It may say what the first line does not, such as
    a full disk.
    """
    causes = _CAUSE.findall(text)
    root = _CONDITION.sub("", causes[-1]).split(" SQLSTATE:")[0].strip() if causes else ""
    return said if root in said or said in root else f"{said.rstrip('.')}: {root}"


def _python() -> str:
    return os.environ.get("PYSPARK_PYTHON", "python3")


def _ours(line: str) -> PipelineError:
    """A broker's error begins with the name of its code."""
    name, _, detail = line.partition(": ")
    code = Code.__members__.get(name)
    return PipelineError(line if code is None else detail, code)
