"""Transcripts: text files with commands, and everything that follows from each.

A line that begins in the first column is a command, an indented line is a result of the command
above it, and a line with # is a comment. A test replays the commands and compares the results.
REWRITE=1 writes the files as they are now.
"""

import os
from collections.abc import Callable
from pathlib import Path

INDENT = "    "
Run = Callable[[str], list[str]]


def replay(text: str, run: Run) -> str:
    """The transcript as it would be written now. `run`: from a command to its results."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(INDENT):
            continue
        lines.append(line)
        if line.strip() and not line.startswith("#"):
            lines += (INDENT + each for each in run(line))
    return "\n".join(lines) + "\n"


def transcripts_beside(test_file: str) -> list[Path]:
    return sorted(Path(test_file).with_name("transcripts").glob("*.txt"))


def check(path: Path, run: Run) -> None:
    written = path.read_text()
    now = replay(written, run)
    if os.environ.get("REWRITE"):
        path.write_text(now)
        return
    assert now == written


def options_of(words: list[str]) -> dict[str, str]:
    """NAME=VALUE ..."""
    pairs = (word.partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def ms_of(text: str) -> int:
    """3s or 500ms."""
    if text.endswith("ms"):
        return int(text.removesuffix("ms"))
    return round(float(text.removesuffix("s")) * 1_000)
