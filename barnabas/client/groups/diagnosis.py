"""Finds what is wrong with a group, and which option to change.

In: a report. Out: findings, the worst first; none for a healthy group.
Always: pure; a rule uses only what the report shows, and returns nothing if it needs a history that
is not there. Only the last ten minutes are examined, not older problems.
Not here: the rules (member_rules.py, lag_rules.py, share_rules.py, streams_rules.py), gathering the
report (reporting.py), showing findings (cli/).
"""

from collections.abc import Callable, Iterator

from barnabas.client.finding import Finding, Severity
from barnabas.client.groups import lag_rules, member_rules, share_rules, streams_rules
from barnabas.client.groups.report import SHARE, STREAMS, GroupReport

Rule = Callable[[GroupReport], Iterator[Finding]]
RULES = (lag_rules.no_members, *member_rules.RULES, *lag_rules.RULES)
_ORDER = {Severity.PROBLEM: 0, Severity.WARNING: 1}


def diagnose(report: GroupReport) -> list[Finding]:
    """The findings of all rules, by severity, then in the order of the rules."""
    rules: tuple[Rule, ...] = share_rules.RULES if report.type == SHARE else RULES
    if report.type == STREAMS:
        rules = (*streams_rules.RULES, *RULES)
    found = [finding for rule in rules for finding in rule(report)]
    return sorted(found, key=lambda finding: _ORDER[finding.severity])
