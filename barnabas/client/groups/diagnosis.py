"""Says in words what is wrong with a group, and which property to change.

In: a report. Out: findings, the worst first; none for a healthy group.
Always: pure; a rule speaks only of what the report shows, and keeps silent where it lacks the
story to tell. Only the last ten minutes count: a group is not blamed for its past.
Not here: the rules (member_rules.py, lag_rules.py), gathering the report (reporting.py), showing
findings (cli/).
"""

from barnabas.client.groups import lag_rules, member_rules
from barnabas.client.groups.finding import GroupFinding, Severity
from barnabas.client.groups.report import GroupReport

RULES = (lag_rules.no_members, *member_rules.RULES, *lag_rules.RULES)
_ORDER = {Severity.PROBLEM: 0, Severity.WARNING: 1}


def diagnose(report: GroupReport) -> list[GroupFinding]:
    """Each rule once, in the order of severity and then of the rules."""
    found = [finding for rule in RULES for finding in rule(report)]
    return sorted(found, key=lambda finding: _ORDER[finding.severity])
