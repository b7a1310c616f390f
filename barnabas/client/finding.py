"""One thing that is wrong with a group or a transaction."""

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """PROBLEM: records wait, or members are removed. WARNING: waste, or a problem to expect."""

    PROBLEM = "problem"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """`name` for programs and the docs, `text` and `remedy` for people."""

    name: str
    severity: Severity
    text: str
    remedy: str


def problem(name: str, text: str, remedy: str) -> Finding:
    return Finding(name, Severity.PROBLEM, text, remedy)


def warning(name: str, text: str, remedy: str) -> Finding:
    return Finding(name, Severity.WARNING, text, remedy)
