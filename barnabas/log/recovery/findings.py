"""What opening or recovery found, and what it did about it, for people to read."""

from typing import NamedTuple


class RecoveryFinding(NamedTuple):
    """One decision: the file, what was wrong with it, and what was done."""

    path: str
    what: str
    action: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}; {self.action}"
