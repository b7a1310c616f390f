"""Lines on a terminal that are redrawn; nothing if standard error is not a terminal."""

import shutil
import sys
from collections.abc import Sequence

import click

from barnabas.model.words import printable


class Drawing:
    """The last lines of standard error."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self._drawn = 0

    def draw(self, lines: Sequence[str]) -> None:
        """Replaces the lines that were drawn before."""
        if not self.live:
            return
        width = shutil.get_terminal_size().columns
        up = f"\r\033[{self._drawn}A" if self._drawn else "\r"
        text = "".join(f"{printable(line)[: width - 1]}\n" for line in lines)
        click.echo(f"{up}\033[J{text}", err=True, nl=False)
        self._drawn = len(lines)

    def clear(self) -> None:
        self.draw([])
