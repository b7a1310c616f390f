"""Rules about streams groups.

In: a report of a streams group. Out: findings.
"""

from collections.abc import Iterator

from barnabas.client.finding import Finding, problem
from barnabas.client.groups.report import GroupReport

NOT_READY = "NotReady"


def not_ready(report: GroupReport) -> Iterator[Finding]:
    """Nothing is assigned while a topic is missing, or has the wrong number of partitions."""
    if report.state != NOT_READY:
        return
    names = sorted({topic for member in report.members for topic in member.topics})
    missing = [name for name in names if name not in report.topic_partitions]
    if missing:
        yield problem(
            "topics-missing",
            f"no task is assigned: {', '.join(missing)} does not exist",
            "create source topics; the broker creates internal topics if the members may create"
            " topics, and its log says why if it could not",
        )
    else:
        yield problem(
            "topics-wrong",
            "no task is assigned: internal topics are missing, or topics that are joined do not"
            " have equally many partitions",
            "read the status in the log of a member; give joined topics equally many partitions,"
            " or delete internal topics that have another number than their source topics",
        )


RULES = (not_ready,)
