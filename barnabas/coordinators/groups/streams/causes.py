"""Reports to the history of a streams group what its members did.

In: a group, the step of a member. Out: causes in the history.
Always: a member that has reached the target is reported once per target.
Not here: the history itself (history/rebalance_history.py).
"""

from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.history.rebalance_history import CauseKind, RebalanceCause
from barnabas.coordinators.groups.streams.group import StreamsGroup
from barnabas.coordinators.groups.streams.step import StreamsStep
from barnabas.coordinators.groups.streams.target import ASSIGNOR
from barnabas.coordinators.runtime import Now


def report_step(group: StreamsGroup, step: StreamsStep, now: Now) -> None:
    member, history = step.member, group.history
    if step.is_new:
        history.happened(group.cause(CauseKind.JOINED, member), now)
    elif step.described:
        history.happened(group.cause(CauseKind.METADATA_CHANGED, member), now)
    elif step.epoch != group.stored.epoch:
        kind = CauseKind.PARTITIONS_CHANGED
        if group.stored.standbys != group.limits.streams_num_standby_replicas:
            kind = CauseKind.STANDBYS_CHANGED
        history.happened(RebalanceCause(kind), now)
    if step.targets is not None:
        group.behind = dict.fromkeys(step.targets)
        history.joined(step.epoch, len(step.targets), ASSIGNOR, None, now)
    reached = member.has_reached(step.target_epoch) and step.target_epoch == step.epoch
    if not reached or member.id not in group.behind:
        return
    del group.behind[member.id]
    if step.began.state is not MemberState.UNRELEASED:  # else other members were late
        history.arrived(member.id, member.client_id, member.client_host, now)
    if not group.behind:
        targets = group.stored.targets if step.targets is None else step.targets
        assigned = {id_: tuple(group.read_partitions(each.active)) for id_, each in targets.items()}
        history.assigned(assigned, now)
