"""Brokers come, go, ask to stop, lose disks, and are forgotten.

In: who is registered now, and what a broker says of itself. Out: other leaders, smaller in-sync
sets, and everything told to whoever has come.
Always: a broker that has registered anew was away: it is in sync no longer while anybody else is,
however short it was, since it may have come back without its disk (KIP-903).
"""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.controller import moves, proof, topics
from barnabas.controller.election import after_loss, first_state, is_alone
from barnabas.controller.proof import Report
from barnabas.controller.state import (
    NO_LEADER,
    BrokerInfo,
    KnownBroker,
    PartitionView,
    State,
)
from barnabas.controller.steps import (
    ForgetBroker,
    ReadBrokers,
    ReadConfig,
    RememberBroker,
    Say,
    Steps,
    Write,
)
from barnabas.controller.term import Next, Term
from barnabas.model.errors import Code, Fenced, InvalidRequest
from barnabas.model.ids import BrokerId, TopicPartition


def brokers_changed(term: Term) -> Steps[None]:
    """Somebody has come or gone: see who."""
    found: Sequence[BrokerInfo] = yield ReadBrokers()
    here = {broker.id: broker for broker in found}
    known = term.cluster.brokers
    gone = [id_ for id_, before in known.items() if _epoch(here.get(id_)) != before.epoch]
    come = [broker for id_, broker in here.items() if term.cluster.epoch(id_) != broker.epoch]
    if gone:
        yield from _lose(term, gone, here)
    if come:
        yield from _gain(term, come)
    changed = [broker for id_, broker in here.items() if known.get(id_) not in (None, broker)]
    for broker in changed:  # the same registration with other data
        term.cluster.brokers[broker.id] = broker
        term.brokers_changed()
    yield from term.flush()


def _epoch(broker: BrokerInfo | None) -> int:
    return -1 if broker is None else broker.epoch


def _lose(term: Term, gone: Sequence[BrokerId], here: Mapping[BrokerId, BrokerInfo]) -> Steps[None]:
    cluster = term.cluster
    led: dict[PartitionView, str] = {}
    followed: dict[PartitionView, str] = {}
    for broker in gone:
        anew = broker in here
        cause = f"broker {broker} {'has registered anew' if anew else 'is gone'}"
        cluster.leave(broker)
        term.story.add(term.now, "broker down", cause)
        yield Say("broker down", {"broker": broker, "anew": anew}, loud=True)
        led.update(dict.fromkeys(cluster.led(broker), cause))
        for partition in cluster.hosted(broker):
            followed.setdefault(partition, cause)
    term.brokers_changed()
    if led:  # their clients wait: these first
        yield from repair(term, led)
        yield from term.flush()
    yield from repair(term, {each: why for each, why in followed.items() if each not in led})
    for waiting in term.deletions.values():
        for broker in gone:
            waiting.pop(broker, None)
    yield from topics.forget_marks(term)


def _gain(term: Term, come: Sequence[BrokerInfo]) -> Steps[None]:
    cluster = term.cluster
    concerned: dict[PartitionView, str] = {}
    yield from remember(term, come)
    for broker in come:
        cluster.join(broker)
        term.welcome(broker.id)
        term.story.add(term.now, "broker up", f"broker {broker.id} has registered")
        yield Say("broker up", {"broker": broker.id, "epoch": broker.epoch, "rack": broker.rack})
        for partition in cluster.hosted(broker.id):
            if partition.leader == NO_LEADER:
                concerned[partition] = f"broker {broker.id} is there"
    yield from repair(term, concerned)
    yield from moves.finish(term, list(cluster.moving))


def remember(term: Term, come: Iterable[BrokerInfo]) -> Steps[None]:
    """Replicas can be placed on a broker while it is down, and a log directory that is missing at
    its return is noticed."""
    changes = []
    for broker in come:
        before = term.cluster.known_brokers.get(broker.id)
        after = _known(before, broker)
        if after != before:
            changes.append(after)
            if before is not None and after.lost_epoch != before.lost_epoch:
                yield Say(
                    "log directory replaced: its replicas are copied again",
                    {"broker": broker.id, "before": before.directories, "now": after.directories},
                    loud=True,
                )
    if changes:
        yield Write([RememberBroker(each) for each in changes])
    for each in changes:
        term.cluster.known_brokers[each.id] = each


def _known(before: KnownBroker | None, now: BrokerInfo) -> KnownBroker:
    if before is None:
        return KnownBroker(now.id, now.rack, now.directories)
    if not now.directories:  # it does not say
        return before._replace(rack=now.rack)
    lost = any(each not in now.directories for each in before.directories)
    epoch = now.epoch if lost else before.lost_epoch
    return KnownBroker(now.id, now.rack, now.directories, epoch)


def reported(
    term: Term, broker: BrokerId, epoch: int, reports: Mapping[TopicPartition, Report]
) -> Steps[None]:
    """A broker has said what it has of partitions that nobody leads."""
    cluster = term.cluster
    if cluster.epoch(broker) != epoch:
        return
    concerned: dict[PartitionView, str] = {}
    alone: dict[PartitionView, str] = {}
    for name, report in reports.items():
        partition = cluster.find(name)
        if partition in term.unanswered and partition.leader == broker:
            cause = term.unanswered.pop(partition)
            if report.copy is proof.Copy.COMPLETE:
                alone[partition] = cause
        if partition is None or not cluster.is_asked(broker, partition):
            continue
        cluster.put_report(broker, partition, report)
        if partition.leader == NO_LEADER:
            concerned[partition] = f"broker {broker} has reported its log"
            if report.copy is not proof.Copy.COMPLETE:
                yield Say(
                    "replica not complete",
                    {"broker": broker, "partition": str(name), "reason": report.reason},
                    loud=True,
                )
    yield from repair(term, alone, answered=True)
    yield from repair(term, concerned)
    finished = [each for each in (*alone, *concerned) if each in cluster.moving]
    yield from moves.finish(term, finished)
    yield from term.flush()


def wait_over(term: Term) -> Steps[None]:
    """The time for missing members is over for some partitions."""
    due = {
        each: "its other in-sync replicas did not come back in time"
        for each, at in term.waiting.items()
        if at <= term.now
    }
    if due:
        yield from repair(term, due)
        yield from moves.finish(term, [each for each in due if each in term.cluster.moving])
        yield from term.flush()


def repair(
    term: Term, concerned: Mapping[PartitionView, str], *, answered: bool = False
) -> Steps[None]:
    """Leaders for those that can have one, and in-sync sets without those that are gone.

    Who could lead the others is asked, and so is a leader that would be alone in its set; the
    answers come back here (`reported`). `answered`: the leaders have just done so.
    """
    cluster, unclean = term.cluster, dict[str, bool]()
    nexts = []
    for partition, cause in concerned.items():
        if partition.state is None:
            state = first_state(cluster, partition, term.epoch)
        else:
            waited = term.waiting.get(partition, term.now + 1) <= term.now
            state = after_loss(cluster, partition, term.epoch, waited=waited, answered=answered)
            if not _hopeless(partition, state):
                term.waiting.pop(partition, None)
            elif proof.unreported(cluster, partition):
                term.ask_for_report(partition)
            elif proof.is_awaited(cluster, partition):
                term.waiting.setdefault(partition, term.now + proof.WAIT_MS)
            else:
                allowed = yield from term.allows_unclean(partition.name.topic, unclean)
                if allowed:
                    state = after_loss(cluster, partition, term.epoch, unclean=True) or state
        if state is not None:
            nexts.append(Next(partition, state, cause))
    yield from term.write(nexts)
    _ask_leaders(term, concerned)


def _ask_leaders(term: Term, concerned: Mapping[PartitionView, str]) -> None:
    for partition, cause in concerned.items():
        if is_alone(term.cluster, partition):
            term.ask_leader(partition, cause)


def _hopeless(partition: PartitionView, state: State | None) -> bool:
    """Nobody who may lead is there."""
    return (partition.leader if state is None else state.leader) == NO_LEADER


def replicas_failed(
    term: Term, broker: BrokerId, epoch: int, names: Iterable[TopicPartition]
) -> Steps[None]:
    """A disk of a broker that is there: others take over what was on it."""
    if term.cluster.epoch(broker) != epoch:
        return
    concerned: dict[PartitionView, str] = {}
    for name in names:
        partition = term.cluster.find(name)
        if partition is not None and term.cluster.online(broker, partition):
            term.cluster.fail(broker, partition)
            concerned[partition] = f"a disk of broker {broker} has failed"
    if not concerned:
        return
    term.story.add(term.now, "disk failed", f"broker {broker} lost {len(concerned)} replicas")
    yield Say("replicas offline", {"broker": broker, "replicas": len(concerned)}, loud=True)
    yield from repair(term, concerned)
    for partition in concerned:
        term.retell(partition, everyone=False)
    yield from term.flush()


def shut_down(term: Term, broker: BrokerId, epoch: int) -> Steps[list[TopicPartition]]:
    """A broker is about to stop. The answer: what it still leads, because nobody else can."""
    cluster = term.cluster
    if cluster.epoch(broker) != epoch:
        raise Fenced(
            Code.STALE_BROKER_EPOCH,
            f"broker {broker} has epoch {cluster.epoch(broker)} now, not {epoch}",
        )
    if broker not in cluster.leaving:
        cluster.leaving[broker] = None
        term.story.add(term.now, "broker stopping", f"broker {broker} has asked to stop")
        yield Say("broker stopping", {"broker": broker})
    cause = f"broker {broker} is about to stop"
    nexts = []
    for partition in cluster.hosted(broker):
        if partition.state is not None and len(partition.assignment.replicas) > 1:
            state = after_loss(cluster, partition, term.epoch)
            if state is not None and state.leader != NO_LEADER:
                nexts.append(Next(partition, state, cause))
    yield from term.write(nexts)
    _ask_leaders(term, dict.fromkeys(cluster.hosted(broker), cause))
    yield from term.flush()
    return [each.name for each in cluster.led(broker) if len(each.assignment.replicas) > 1]


def unregister(term: Term, broker: BrokerId) -> Steps[None]:
    """A broker that is gone for good."""
    if broker in term.cluster.brokers:
        raise InvalidRequest(
            Code.INVALID_REQUEST, f"broker {broker} is alive: stop it before it is forgotten"
        )
    settings = yield ReadConfig("brokers", str(broker))
    if not term.cluster.known(broker) and not settings:
        raise InvalidRequest(
            Code.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker}, and nothing is kept of it"
        )
    if term.cluster.hosted(broker):
        some = next(iter(term.cluster.hosted(broker))).name
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"broker {broker} has {len(term.cluster.hosted(broker))} replicas, {some} among them:"
            " move them to other brokers first (barnabas cluster reassign)",
        )
    yield Write([ForgetBroker(broker)])
    term.cluster.known_brokers.pop(broker, None)
    term.story.add(term.now, "broker forgotten", f"broker {broker} was unregistered by request")
    yield Say("broker unregistered", {"broker": broker})
