"""Groups for an administrator that blocks."""

from barnabas.client.blocking.net import mirrored
from barnabas.client.groups.reporting import GroupReports as Flows


class GroupReports:
    """Mixed into the blocking Admin."""

    groups = mirrored(Flows.groups)
    describe_group = mirrored(Flows.describe_group)
    describe_groups = mirrored(Flows.describe_groups)
    group_offsets = mirrored(Flows.group_offsets)
    groups_offsets = mirrored(Flows.groups_offsets)
    alter_group_offsets = mirrored(Flows.alter_group_offsets)
    delete_group_offsets = mirrored(Flows.delete_group_offsets)
    delete_group = mirrored(Flows.delete_group)
    group_stories = mirrored(Flows.group_stories)
    times_at = mirrored(Flows.times_at)
    group_report = mirrored(Flows.group_report)
    group_summaries = mirrored(Flows.group_summaries)
