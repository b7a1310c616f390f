"""One thing that is wrong with a group."""

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """PROBLEM: records wait, or members are thrown out. WARNING: waste, or trouble to come."""

    PROBLEM = "problem"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class GroupFinding:
    """`name` for programs and the docs, `text` and `remedy` for people."""

    name: str
    severity: Severity
    text: str
    remedy: str


def problem(name: str, text: str, remedy: str) -> GroupFinding:
    return GroupFinding(name, Severity.PROBLEM, text, remedy)


def warning(name: str, text: str, remedy: str) -> GroupFinding:
    return GroupFinding(name, Severity.WARNING, text, remedy)
