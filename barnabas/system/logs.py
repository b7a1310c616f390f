"""Structured log lines on standard error: `level event key=value ...`, or JSON.

One line per event, the event first, then what it is about. A terminal gets
text; a pipe or file gets JSON lines unless BARNABAS_LOG=text. Brokers of a cluster may share one
standard error: then each line says whose it is.
Always: logging never fails; a broker whose log is full or closed goes on without it. A line is
one line whatever is in the values, and no value is long, but for a traceback.
"""

import json
import os
import sys
import time
from typing import IO

LEVELS = ("debug", "info", "warning", "error")
_DEFAULT_LEVEL = "info"
_TRACE = "trace"  # the one value that is shown whole
_VALUE_LENGTH_MAX = 1_000


class Logger:
    """Says what happened, with its values kept apart for machines."""

    def __init__(self, stream: IO[str] | None = None, level: str | None = None) -> None:
        self._stream = stream or sys.stderr
        self.node: int | None = None  # the broker that writes, where there are several
        wanted = level or os.environ.get("BARNABAS_LOG_LEVEL") or _DEFAULT_LEVEL
        known = wanted.lower() in LEVELS
        self._threshold = LEVELS.index(wanted.lower() if known else _DEFAULT_LEVEL)
        form = os.environ.get("BARNABAS_LOG")
        self._json = form == "json" or (form != "text" and not self._stream.isatty())
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

    def _write(self, level: int, event: str, values: dict[str, object]) -> None:
        if level < self._threshold:
            return
        now = time.time()
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        stamp = f"{second}.{int(now * 1000) % 1000:03d}Z"
        values = {key: _bounded(key, value) for key, value in values.items()}
        if self._json:
            whose = {} if self.node is None else {"node": self.node}
            entry = {"time": stamp, "level": LEVELS[level], **whose, "event": event} | values
            line = json.dumps(entry, default=str)
        else:
            pairs = " ".join(f"{key}={_quoted(value)}" for key, value in values.items())
            whose_text = "" if self.node is None else f"[{self.node}] "
            line = f"{stamp} {LEVELS[level]:<7} {whose_text}{event}{' ' if pairs else ''}{pairs}"
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # no room, no reader, or closed: no place to say so
            pass


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
