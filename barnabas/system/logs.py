"""Structured log lines on standard error: `level event key=value ...`, or JSON.

One line per event: the event first, then its values. A terminal gets text; a pipe or file gets
JSON lines unless BARNABAS_LOG=text. Brokers of a cluster may share one standard error: then each
line has the id of its broker.
Always: logging never fails and never waits: lines that standard error does not accept are dropped,
and a later line has their count (log_writer.py). A line has no line breaks, whatever the values,
and no value is long, except a traceback.
"""

import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from io import StringIO
from typing import IO, TYPE_CHECKING

from barnabas.system.log_writer import LogWriter

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

LEVELS = ("debug", "info", "warning", "error")
_DEFAULT_LEVEL = "info"
_TRACE = "trace"  # the one value that is not shortened
_VALUE_LENGTH_MAX = 1_000


class Logger:
    """Logs events, with their values as separate fields for machines."""

    _writer: LogWriter | None = None

    def __init__(self, stream: IO[str] | None = None, level: str | None = None) -> None:
        self._stream = stream or sys.stderr or StringIO()  # Python has none if it is closed
        self.node: int | None = None  # the id of the broker that logs, if several share the stream
        wanted = level or os.environ.get("BARNABAS_LOG_LEVEL") or _DEFAULT_LEVEL
        known = wanted.lower() in LEVELS
        self._threshold = LEVELS.index(wanted.lower() if known else _DEFAULT_LEVEL)
        form = os.environ.get("BARNABAS_LOG")
        self._json = form == "json" or (form != "text" and not self._stream.isatty())
        self._writer = _writer(self._stream, self._dropped_line)
        if not known:
            self.warning(
                "unknown log level",
                level_given=wanted,
                level_used=_DEFAULT_LEVEL,
                remedy=f"set BARNABAS_LOG_LEVEL to one of {', '.join(LEVELS)}",
            )

    def debug(self, event: str, **values: object) -> None:
        self._write(0, event, values)

    def info(self, event: str, **values: object) -> None:
        self._write(1, event, values)

    def warning(self, event: str, **values: object) -> None:
        self._write(2, event, values)

    def error(self, event: str, **values: object) -> None:
        self._write(3, event, values)

    @property
    def dropped(self) -> int:
        """Lines that standard error did not accept, since the start."""
        return 0 if self._writer is None else self._writer.dropped

    def close(self) -> None:
        """Wait for the last lines, but not for a reader that does not read."""
        if self._writer is not None:
            self._writer.close()

    def _write(self, level: int, event: str, values: dict[str, object]) -> None:
        if level < self._threshold:
            return
        line = self._line(level, event, values)
        if self._writer is not None:
            self._writer.write(line)
            return
        try:
            self._stream.write(line)
            self._stream.flush()
        except (OSError, ValueError):  # no room, no reader, or closed: the failure cannot be logged
            pass

    def _dropped_line(self, count: int) -> str:
        values: dict[str, object] = {
            "count": count,
            "reason": "standard error was full or closed",
            "remedy": "read the broker's standard error faster, or log to a file",
        }
        return self._line(LEVELS.index("warning"), "log lines dropped", values)

    def _line(self, level: int, event: str, values: dict[str, object]) -> str:
        now = time.time()
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        stamp = f"{second}.{int(now * 1000) % 1000:03d}Z"
        values = {key: _bounded(key, value) for key, value in values.items()}
        if self._json:
            whose = {} if self.node is None else {"node": self.node}
            entry = {"time": stamp, "level": LEVELS[level], **whose, "event": event} | values
            return json.dumps(entry, default=str) + "\n"
        pairs = " ".join(f"{key}={_quoted(value)}" for key, value in values.items())
        whose_text = "" if self.node is None else f"[{self.node}] "
        return f"{stamp} {LEVELS[level]:<7} {whose_text}{event}{' ' if pairs else ''}{pairs}\n"


class _StandardLogging(logging.Handler):
    """Warnings of libraries; Python would write them to standard error and wait."""

    def __init__(self, log: Logger) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("barnabas."):  # ours, for programs that use the library
            return
        say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        values: dict[str, object] = {"library": record.name, "reason": record.getMessage()}
        if record.exc_info and record.exc_info[1] is not None:
            values[_TRACE] = "".join(traceback.format_exception(record.exc_info[1]))
        say("library warning", **values)


def take_over(log: Logger, loop: "AbstractEventLoop") -> None:
    """Send what Python itself would write to standard error to `log`, which never waits."""

    def failed(event: str, error: BaseException | None, **values: object) -> None:
        trace = "" if error is None else "".join(traceback.format_exception(error))
        log.error(event, **values, error=repr(error), trace=trace)

    logging.getLogger().addHandler(_StandardLogging(log))
    loop.set_exception_handler(
        lambda _, context: failed(
            "event loop error", context.get("exception"), reason=context["message"]
        )
    )
    threading.excepthook = lambda gone: failed("thread failed", gone.exc_value)
    sys.unraisablehook = lambda gone: failed("ignored error", gone.exc_value)


def _writer(stream: IO[str], dropped_line: Callable[[int], str]) -> LogWriter | None:
    """None: the stream is not a file of the system, so writing to it does not wait."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None
    return LogWriter(descriptor, dropped_line)


def _bounded(key: str, value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    text = str(value)
    if key == _TRACE or len(text) <= _VALUE_LENGTH_MAX:
        return value
    return f"{text[:_VALUE_LENGTH_MAX]}... ({len(text)} characters)"


def _quoted(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and not any(c in text for c in ' "=')
    return text if text and plain else json.dumps(text)
