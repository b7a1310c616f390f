"""Handles brokers that register, fail, shut down, lose disks, and are unregistered.

In: the registered brokers, and what a broker reports about itself. Out: new leaders, smaller
in-sync sets, and the complete metadata for brokers that have registered.
Always: a broker that has registered again was away, however briefly. It leaves the in-sync set if
another replica is in sync, because it may have come back without its disk (KIP-903).
"""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.controller import proof, topics
from barnabas.controller import reassignment as moves
from barnabas.controller.leader_election import after_loss, first_state, is_alone
from barnabas.controller.proof import ReplicaReport
from barnabas.controller.state import (
    NO_LEADER,
    BrokerInfo,
    KnownBroker,
    PartitionLeadership,
    PartitionView,
)
from barnabas.controller.steps import (
    ForgetBroker,
    LogLine,
    ReadBrokers,
    ReadConfig,
    RememberBroker,
    Steps,
    Write,
)
from barnabas.controller.tenure import ControllerTenure, NextState
from barnabas.model.errors import Code, Fenced, InvalidRequest
from barnabas.model.ids import BrokerId, TopicPartition


def brokers_changed(tenure: ControllerTenure) -> Steps[None]:
    """The set of registered brokers has changed: compare it with the previous one."""
    found: Sequence[BrokerInfo] = yield ReadBrokers()
    here = {broker.id: broker for broker in found}
    known = tenure.cluster.brokers
    failed = [id_ for id_, before in known.items() if _epoch(here.get(id_)) != before.epoch]
    registered = [
        broker for id_, broker in here.items() if tenure.cluster.epoch(id_) != broker.epoch
    ]
    if failed:
        yield from _brokers_failed(tenure, failed, here)
    if registered:
        yield from _brokers_registered(tenure, registered)
    changed = [broker for id_, broker in here.items() if known.get(id_) not in (None, broker)]
    for broker in changed:  # the same registration with other data
        tenure.cluster.brokers[broker.id] = broker
        tenure.brokers_changed()
    yield from tenure.flush()


def _epoch(broker: BrokerInfo | None) -> int:
    return -1 if broker is None else broker.epoch


def _brokers_failed(
    tenure: ControllerTenure, failed: Sequence[BrokerId], here: Mapping[BrokerId, BrokerInfo]
) -> Steps[None]:
    cluster = tenure.cluster
    led: dict[PartitionView, str] = {}
    followed: dict[PartitionView, str] = {}
    for broker in failed:
        registered_again = broker in here
        event = "has registered again" if registered_again else "is no longer registered"
        cause = f"broker {broker} {event}"
        cluster.leave(broker)
        tenure.history.add(tenure.now, "broker down", cause)
        yield LogLine(
            "broker down", {"broker": broker, "registered_again": registered_again}, warn=True
        )
        led.update(dict.fromkeys(cluster.led(broker), cause))
        for partition in cluster.hosted(broker):
            followed.setdefault(partition, cause)
    tenure.brokers_changed()
    if led:  # clients of these partitions wait, so they come first
        yield from repair(tenure, led)
        yield from tenure.flush()
    yield from repair(tenure, {each: why for each, why in followed.items() if each not in led})
    for waiting in tenure.deletions.values():
        for broker in failed:
            waiting.pop(broker, None)
    yield from topics.forget_marks(tenure)


def _brokers_registered(tenure: ControllerTenure, registered: Sequence[BrokerInfo]) -> Steps[None]:
    cluster = tenure.cluster
    concerned: dict[PartitionView, str] = {}
    yield from remember(tenure, registered)
    for broker in registered:
        cluster.join(broker)
        tenure.send_everything(broker.id)
        tenure.history.add(tenure.now, "broker up", f"broker {broker.id} has registered")
        yield LogLine(
            "broker up", {"broker": broker.id, "epoch": broker.epoch, "rack": broker.rack}
        )
        for partition in cluster.hosted(broker.id):
            if partition.leader == NO_LEADER:
                concerned[partition] = f"broker {broker.id} has registered"
    yield from repair(tenure, concerned)
    yield from moves.finish(tenure, list(cluster.moving))


def remember(tenure: ControllerTenure, registered: Iterable[BrokerInfo]) -> Steps[None]:
    """Replicas can be placed on a broker while it is down. A log directory that is missing when the
    broker comes back is noticed."""
    changes = []
    for broker in registered:
        before = tenure.cluster.known_brokers.get(broker.id)
        after = _known(before, broker)
        if after != before:
            changes.append(after)
            if before is not None and after.lost_epoch != before.lost_epoch:
                yield LogLine(
                    "log directory replaced: its replicas are copied again",
                    {"broker": broker.id, "before": before.directories, "now": after.directories},
                    warn=True,
                )
    if changes:
        yield Write([RememberBroker(each) for each in changes])
    for each in changes:
        tenure.cluster.known_brokers[each.id] = each


def _known(before: KnownBroker | None, now: BrokerInfo) -> KnownBroker:
    if before is None:
        return KnownBroker(now.id, now.rack, now.directories)
    if not now.directories:  # it does not report them
        return before._replace(rack=now.rack)
    lost = any(each not in now.directories for each in before.directories)
    epoch = now.epoch if lost else before.lost_epoch
    return KnownBroker(now.id, now.rack, now.directories, epoch)


def reported(
    tenure: ControllerTenure,
    broker: BrokerId,
    epoch: int,
    reports: Mapping[TopicPartition, ReplicaReport],
) -> Steps[None]:
    """A broker has reported its replicas of partitions that have no leader."""
    cluster = tenure.cluster
    if cluster.epoch(broker) != epoch:
        return
    concerned: dict[PartitionView, str] = {}
    alone: dict[PartitionView, str] = {}
    for name, report in reports.items():
        partition = cluster.find(name)
        if partition in tenure.unanswered and partition.leader == broker:
            cause = tenure.unanswered.pop(partition)
            if report.copy is proof.ReplicaCompleteness.COMPLETE:
                alone[partition] = cause
        if partition is None or not cluster.is_asked(broker, partition):
            continue
        cluster.put_report(broker, partition, report)
        if partition.leader == NO_LEADER:
            concerned[partition] = f"broker {broker} has reported its log"
            if report.copy is not proof.ReplicaCompleteness.COMPLETE:
                yield LogLine(
                    "replica not complete",
                    {"broker": broker, "partition": str(name), "reason": report.reason},
                    warn=True,
                )
    yield from repair(tenure, alone, answered=True)
    yield from repair(tenure, concerned)
    finished = [each for each in (*alone, *concerned) if each in cluster.moving]
    yield from moves.finish(tenure, finished)
    yield from tenure.flush()


def wait_over(tenure: ControllerTenure) -> Steps[None]:
    """The wait for missing members is over for some partitions."""
    due = {
        each: "its other in-sync replicas did not come back in time"
        for each, at in tenure.waiting.items()
        if at <= tenure.now
    }
    if due:
        yield from repair(tenure, due)
        yield from moves.finish(tenure, [each for each in due if each in tenure.cluster.moving])
        yield from tenure.flush()


def repair(
    tenure: ControllerTenure, concerned: Mapping[PartitionView, str], *, answered: bool = False
) -> Steps[None]:
    """Elect leaders where possible, and remove unregistered brokers from in-sync sets.

    Replicas that could lead the other partitions are asked for a report, and so is a leader that
    would be alone in its in-sync set; the replies arrive at `reported`. `answered`: the leaders
    have just replied.
    """
    cluster, unclean = tenure.cluster, dict[str, bool]()
    nexts = []
    for partition, cause in concerned.items():
        if partition.state is None:
            state = first_state(cluster, partition, tenure.epoch)
        else:
            waited = tenure.waiting.get(partition, tenure.now + 1) <= tenure.now
            state = after_loss(cluster, partition, tenure.epoch, waited=waited, answered=answered)
            offline = _has_no_candidate(partition, state)
            awaited = offline and proof.is_awaited(cluster, partition)
            if not awaited:  # the next complete member that comes back waits its full time
                tenure.waiting.pop(partition, None)
            if offline and proof.unreported(cluster, partition):
                tenure.ask_for_report(partition)
            elif awaited:
                tenure.waiting.setdefault(partition, tenure.now + proof.WAIT_MS)
            elif offline:
                allowed = yield from tenure.allows_unclean(partition.name.topic, unclean)
                if allowed:
                    state = after_loss(cluster, partition, tenure.epoch, unclean=True) or state
        if state is not None:
            nexts.append(NextState(partition, state, cause))
    yield from tenure.write(nexts)
    ask_leaders(tenure, concerned)


def ask_leaders(tenure: ControllerTenure, concerned: Mapping[PartitionView, str]) -> None:
    """Leaders that would be alone in their in-sync sets are asked for a report."""
    for partition, cause in concerned.items():
        if is_alone(tenure.cluster, partition):
            tenure.ask_leader(partition, cause)


def _has_no_candidate(partition: PartitionView, state: PartitionLeadership | None) -> bool:
    """No broker that may lead is registered."""
    return (partition.leader if state is None else state.leader) == NO_LEADER


def replicas_failed(
    tenure: ControllerTenure, broker: BrokerId, epoch: int, names: Iterable[TopicPartition]
) -> Steps[None]:
    """A disk of a registered broker has failed: other replicas take over its partitions."""
    if tenure.cluster.epoch(broker) != epoch:
        return
    concerned: dict[PartitionView, str] = {}
    for name in names:
        partition = tenure.cluster.find(name)
        if partition is not None and tenure.cluster.online(broker, partition):
            tenure.cluster.fail(broker, partition)
            concerned[partition] = f"a disk of broker {broker} has failed"
    if not concerned:
        return
    tenure.history.add(tenure.now, "disk failed", f"broker {broker} lost {len(concerned)} replicas")
    yield LogLine("replicas offline", {"broker": broker, "replicas": len(concerned)}, warn=True)
    yield from repair(tenure, concerned)
    for partition in concerned:
        tenure.send_state(partition, all_replicas=False)
    yield from tenure.flush()


def shut_down(
    tenure: ControllerTenure, broker: BrokerId, epoch: int
) -> Steps[list[TopicPartition]]:
    """A broker shuts down. Returns the partitions it still leads because no other replica can."""
    cluster = tenure.cluster
    if cluster.epoch(broker) != epoch:
        raise Fenced(
            Code.STALE_BROKER_EPOCH,
            f"broker {broker} has epoch {cluster.epoch(broker)}, not {epoch}",
        )
    if broker not in cluster.leaving:
        cluster.leaving[broker] = None
        tenure.history.add(tenure.now, "broker stopping", f"broker {broker} has asked to stop")
        yield LogLine("broker stopping", {"broker": broker})
    cause = f"broker {broker} is about to stop"
    nexts = []
    for partition in cluster.hosted(broker):
        if partition.state is not None and len(partition.assignment.replicas) > 1:
            state = after_loss(cluster, partition, tenure.epoch)
            if state is not None and state.leader != NO_LEADER:
                nexts.append(NextState(partition, state, cause))
    yield from tenure.write(nexts)
    ask_leaders(tenure, dict.fromkeys(cluster.hosted(broker), cause))
    yield from tenure.flush()
    return [each.name for each in cluster.led(broker) if len(each.assignment.replicas) > 1]


def unregister(tenure: ControllerTenure, broker: BrokerId) -> Steps[None]:
    """Forget a broker that will not come back."""
    if broker in tenure.cluster.brokers:
        raise InvalidRequest(
            Code.INVALID_REQUEST, f"broker {broker} is alive: stop it before you unregister it"
        )
    settings = yield ReadConfig("brokers", str(broker))
    if not tenure.cluster.known(broker) and not settings:
        raise InvalidRequest(Code.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
    if tenure.cluster.hosted(broker):
        some = next(iter(tenure.cluster.hosted(broker))).name
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"broker {broker} has {len(tenure.cluster.hosted(broker))} replicas, {some} among them:"
            " move them to other brokers first (barnabas cluster reassign)",
        )
    yield Write([ForgetBroker(broker)])
    tenure.cluster.known_brokers.pop(broker, None)
    tenure.history.add(
        tenure.now, "broker unregistered", f"broker {broker} was unregistered by a request"
    )
    yield LogLine("broker unregistered", {"broker": broker})
