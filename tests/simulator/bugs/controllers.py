"""Bugs of the controller, and of brokers that belong to a cluster."""

from typing import Any

from barnabas.broker.cluster.membership import ClusterMembership as Place
from barnabas.broker.controller.controller_election import ControllerElection
from barnabas.broker.controller.store import ControllerStore
from barnabas.broker.replicas.incomplete import IncompleteReplicas
from barnabas.broker.replicas.roles import Replicas
from barnabas.controller import brokers, in_sync, leader_election, proof, takeover
from barnabas.controller.state import ClusterState
from barnabas.controller.steps import ReadBrokers
from barnabas.keeper.keeper import ANY_VERSION, Check, Node, SessionState, Set
from barnabas.model.errors import Code
from tests.simulator.bugs.planting import Change, bug
from tests.simulator.keeper import WatchedStore

WRITES_LOST = 3


@bug(brokers=4)
def believes_every_proposal() -> list[Change]:
    """Hazard 5 (KIP-497): in-sync sets are taken from any broker, worked out from
    whatever was known then."""
    return [(in_sync, "_judge", lambda *_: Code.NONE)]


@bug()
def misses_restarts() -> list[Change]:
    """Hazard 6 (KIP-903): a broker that has registered again is taken for the one it was."""

    def brokers_changed(tenure: Any) -> Any:
        found = yield ReadBrokers()
        here = {broker.id: broker for broker in found}
        known = tenure.cluster.brokers
        gone = [id_ for id_ in known if id_ not in here]
        come = [broker for id_, broker in here.items() if id_ not in known]
        again = [b for id_, b in here.items() if id_ in known and known[id_].epoch != b.epoch]
        if gone:
            yield from brokers._brokers_failed(tenure, gone, here)
        if come:
            yield from brokers._brokers_registered(tenure, come)
        for broker in again:
            tenure.cluster.brokers[broker.id] = broker
            tenure.send_everything(broker.id)
        yield from tenure.flush()

    return [(brokers, "brokers_changed", brokers_changed)]


@bug()
def elects_whoever_is_there() -> list[Change]:
    """Hazard 7: where nobody in sync is there, somebody else leads, without a word."""
    real = leader_election.after_loss

    def after_loss(*args: Any, **options: Any) -> Any:
        return real(*args, **{**options, "unclean": True})

    return [(leader_election, "after_loss", after_loss), (brokers, "after_loss", after_loss)]


@bug()
def elects_the_first_replica() -> list[Change]:
    """Hazard 7: the first replica that is alive leads, in sync or not."""
    real = leader_election.after_loss

    def after_loss(cluster: Any, partition: Any, epoch: int, **options: Any) -> Any:
        state = real(cluster, partition, epoch, **options)
        if state is None or state.leader < 0 or state.leader == partition.state.leader:
            return state
        for each in partition.assignment.replicas:
            if cluster.usable(each, partition) and each != partition.state.leader:
                isr = state.isr if each in state.isr else (*state.isr, each)
                return state._replace(
                    leader=each, isr=isr, isr_epochs=tuple(map(cluster.epoch, isr))
                )
        return state

    return [(leader_election, "after_loss", after_loss), (brokers, "after_loss", after_loss)]


@bug()
def elects_without_proof() -> list[Change]:
    """The first member of the in-sync set that comes back leads, with or without its disk."""

    def leader(cluster: Any, partition: Any, *, waited: bool = False) -> Any:
        there = [each for each in partition.state.isr if cluster.usable(each, partition)]
        return there[0] if there else None

    return [(proof, "leader", leader), (IncompleteReplicas, "check_may_lead", lambda *_: None)]


@bug()
def writes_without_a_look_at_its_epoch() -> list[Change]:
    """Hazard 8: a controller that another has followed goes on writing."""
    real = ControllerStore.write

    def write(self: Any, changes: Any) -> Any:
        self._keeper = _Careless(self._keeper)
        return real(self, changes)

    return [(ControllerStore, "write", write)]


class _Careless:
    """A keeper that checks nothing."""

    def __init__(self, keeper: Any) -> None:
        self._keeper: Any = keeper._keeper if isinstance(keeper, _Careless) else keeper

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keeper, name)

    def multi(self, operations: Any) -> Any:
        kept = [
            each._replace(version=ANY_VERSION) if isinstance(each, Set) else each
            for each in operations
        ]
        checks = [each for each in kept if isinstance(each, Check)]
        results = self._keeper.multi([each for each in kept if not isinstance(each, Check)])
        return [None] * len(checks) + results


@bug()
def keeps_the_epoch_of_its_predecessor() -> list[Change]:
    """Hazard 2: another leader in the same epoch."""
    real = leader_election.led_by

    def led_by(cluster: Any, partition: Any, leader: Any, isr: Any, epoch: int) -> Any:
        state = real(cluster, partition, leader, isr, epoch)
        return state._replace(leader_epoch=partition.state.leader_epoch)

    return [(leader_election, "led_by", led_by)]


@bug()
def does_not_register_again() -> list[Change]:
    """Hazard 10: a broker whose session has expired goes on as if nothing had happened."""
    return [(Place, "_expired", lambda self: None)]


@bug()
def does_not_look_again_after_a_gap() -> list[Change]:
    """Hazard 10: watches are gone with the connection, and nobody reads what was missed, neither
    then nor now and then."""
    real = ControllerElection.heard

    def heard(self: ControllerElection, news: Any) -> None:
        if not isinstance(news, SessionState) or news is SessionState.EXPIRED:
            real(self, news)

    return [
        (ControllerElection, "heard", heard),
        (ControllerElection, "_look_unasked", lambda self: None),
    ]


@bug()
def leaves_dead_leaders_where_they_are() -> list[Change]:
    """A new controller takes over what its predecessor knew, and sees no reason to elect."""
    return [(takeover, "_after_absence", lambda tenure: ())]


@bug()
def forgets_its_last_writes() -> list[Change]:
    """Hazard 12: the keeper comes back without what it had said is written."""
    real_write, real_restart = WatchedStore.write, WatchedStore.restart
    lost: list[tuple[WatchedStore, str, Node]] = []

    def write(self: WatchedStore, operations: Any, owner: int) -> Any:
        paths = [each.path for each in operations if isinstance(each, Set)]
        before = [(self, path, self.held(path).node) for path in paths if self.holds(path)]
        results = real_write(self, operations, owner)
        lost.extend(before)
        del lost[:-WRITES_LOST]
        return results

    def restart(self: WatchedStore) -> None:
        for store, path, node in reversed(lost):
            if store is self and self.holds(path):
                self.held(path).node = node
        real_restart(self)

    return [(WatchedStore, "write", write), (WatchedStore, "restart", restart)]


@bug()
def lets_anybody_into_the_set() -> list[Change]:
    """The in-sync set has brokers that have no replica."""
    real = leader_election.with_isr

    def with_isr(cluster: ClusterState, partition: Any, isr: Any, epoch: int, **more: Any) -> Any:
        strangers = tuple(each for each in cluster.brokers if each not in isr)
        return real(cluster, partition, (*isr, *strangers[:1]), epoch, **more)

    return [(leader_election, "with_isr", with_isr), (in_sync, "with_isr", with_isr)]


@bug()
def obeys_deposed_controllers() -> list[Change]:
    """Hazards 8 and 11: nobody looks at the epoch of the sender of an order, nor of the order: a
    LeaderAndIsr that came late (KIP-570) undoes a newer one."""

    def admit(self: Place, controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
        self._controller_epoch = controller_epoch

    return [
        (Place, "admit", admit),
        (Replicas, "_check", lambda self, partition, state: None),
    ]


@bug()
def renews_whatever_the_loop_does() -> list[Change]:
    """A broker that hangs keeps its session, because a thread renews it: nobody takes over."""
    from barnabas.broker.loop_heartbeat import LoopHeartbeat

    return [(LoopHeartbeat, "idle_ms", lambda self: 0)]


@bug(outages=True)
def calls_killed_logs_clean() -> list[Change]:
    """A replica that was killed calls its log clean as soon as it has had any role, also while
    nobody leads: it leads before it was compared with others, though a power loss took its end."""

    def is_confirmed(self: IncompleteReplicas, name: Any, topic_id: Any) -> bool:
        topic = self._broker.topics.by_id(topic_id)
        known = topic.partitions[name.partition : name.partition + 1] if topic else []
        log = self._broker.logs.logs.get(name)
        return any(each.log is log and each.leader_epoch >= 0 for each in known)

    return [(IncompleteReplicas, "is_confirmed", is_confirmed)]


@bug(brokers=4, outages=True)
def shrinks_to_a_silent_leader() -> list[Change]:
    """A set shrinks to a leader that is registered still, though its machine has lost its disk."""
    real = leader_election.after_loss

    def after_loss(*given: Any, **named: Any) -> Any:
        return real(*given, **(named | {"answered": True}))

    return [(leader_election, "after_loss", after_loss), (brokers, "after_loss", after_loss)]
