"""Finds what is wrong with a group, and which option to change.

In: a report. Out: findings, the worst first; none for a healthy group.
Always: pure; a rule uses only what the report shows, and returns nothing if it needs a history that
is not there. Only the last ten minutes are examined, not older problems.
Not here: the rules (member_rules.py, lag_rules.py), gathering the report (reporting.py), showing
findings (cli/).
"""

from barnabas.client.finding import Finding, Severity
from barnabas.client.groups import lag_rules, member_rules
from barnabas.client.groups.report import GroupReport

RULES = (lag_rules.no_members, *member_rules.RULES, *lag_rules.RULES)
_ORDER = {Severity.PROBLEM: 0, Severity.WARNING: 1}


def diagnose(report: GroupReport) -> list[Finding]:
    """The findings of all rules, by severity, then in the order of the rules."""
    found = [finding for rule in RULES for finding in rule(report)]
    return sorted(found, key=lambda finding: _ORDER[finding.severity])
