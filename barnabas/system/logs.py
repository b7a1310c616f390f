"""Structured log lines on standard error: `level event key=value ...`, or JSON.

One line per event, the event first, then what it is about. A terminal gets
text; a pipe or file gets JSON lines unless BARNABAS_LOG=text.
"""

import json
import os
import sys
import time
from typing import IO

LEVELS = ("debug", "info", "warning", "error")


class Logger:
    """Says what happened, with its values kept apart for machines."""

    def __init__(self, stream: IO[str] | None = None, level: str | None = None) -> None:
        self._stream = stream or sys.stderr
        self._threshold = LEVELS.index(level or os.environ.get("BARNABAS_LOG_LEVEL", "info"))
        form = os.environ.get("BARNABAS_LOG")
        self._json = form == "json" or (form != "text" and not self._stream.isatty())

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
        if self._json:
            entry = {"time": stamp, "level": LEVELS[level], "event": event} | values
            line = json.dumps(entry, default=str)
        else:
            pairs = " ".join(f"{key}={_quoted(value)}" for key, value in values.items())
            line = f"{stamp} {LEVELS[level]:<7} {event}{' ' if pairs else ''}{pairs}"
        self._stream.write(line + "\n")
        self._stream.flush()


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c in text for c in ' "=\n\t') else text
