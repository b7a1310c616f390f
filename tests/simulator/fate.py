"""Decides what goes wrong, and when.

In: a seed, a world. Out: kills, power losses, pauses, cuts, resets, clocks that jump.
Always: each world has its own mix of few or many kinds; and no more at once than the guarantees
allow (docs/DURABILITY.md): what a machine had not synced may be lost only while another in-sync
replica has it.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from barnabas.controller.proof import WAIT_MS
from barnabas.keeper.keeper import Delete
from barnabas.keeper.paths import broker as broker_path
from barnabas.model.ids import TopicPartition
from tests.simulator.clients import Client, Reader
from tests.simulator.keeper import HOST, KeeperSession, State
from tests.simulator.shares.plan import TOPIC
from tests.simulator.truth import Excused

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition
    from tests.simulator.machine import Machine
    from tests.simulator.shares.clients import ShareMember
    from tests.simulator.transactions.clients import Transactor
    from tests.simulator.world import World

SECOND = 1_000_000
HOUR_MS = 3_600_000
DISK, POWER = "disk", "power"


class Fate:
    """One trouble after another until `end`."""

    def __init__(self, world: "World", rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._over = False
        kinds: list[tuple[Callable[[], None], int]] = [
            (self._kill, 10),
            (self._lose_power, 8),
            (self._lose_disk, 3),
            (self._kill_all_and_lose_a_disk, 3),
            (self._stop, 4),
            (self._sicken, 3),
            (self._pause, 6),
            (self._wedge, 4),
            (self._cut, 8),
            (self._isolate, 6),
            (self._reset, 6),
            (self._slow, 3),
            (self._jump, 3),
            (self._disconnect, 4),
            (self._expire, 4),
            (self._depose, 3),
            (self._lie_in_wait, 6),
            (self._restart_keeper, 2),
            (self._kill_client, 2),
            (self._pause_client, 4),
            (self._mute_client, 4),
            (self._bring_twin, 10 if world.plan.static else 0),
            (self._new_reader, 2),
            (self._move, 8 if world.plan.moves else 0),
            (self._kill_transactor, 6 if world.transactions is not None else 0),
            (self._silence_transactor, 8 if world.transactions is not None else 0),
            (self._fence_transactor, 6 if world.transactions is not None else 0),
            (self._kill_sharer, 6 if world.shares is not None else 0),
            (self._silence_sharer, 8 if world.shares is not None else 0),
            (self._freeze_leader, 6 if world.shares is not None else 0),
            (self._new_sharer, 3 if world.shares is not None else 0),
            (self._black_out, 20 if world.plan.outages else 0),
        ]
        self._kinds = [kind for kind in kinds if kind[1] and rng.random() < 0.6] or kinds
        self._mean_ms = rng.choice((300, 800, 2000))
        self._lying_in_wait = False
        # Replicas that lost what they had, and count: by an emptied disk, or by a power loss.
        self._poorer: dict[tuple[TopicPartition, int], str] = {}
        self._poorer_epochs: dict[tuple[int, int], None] = {}  # brokers that were, before they did
        # Members that had everything when another lost what it had, by the set of that moment: a
        # controller that removes them from the set loses the records as surely as a disk does.
        self._complete: dict[TopicPartition, tuple[int, ...]] = {}
        self._excused: dict[tuple[TopicPartition, int], int] = {}  # by epoch: elected nonetheless
        self._leaderless_us: dict[TopicPartition, int] = {}  # since when nobody leads

    def begin(self) -> None:
        if self._world.plan.brokers > 1 and self._rng.random() < 0.4:
            self._world.ensemble.lossy = self._rng.choice((0.01, 0.05))
        if self._world.transactions is not None and self._rng.random() < 0.4:
            # Until the world heals: then transactions are open that began in the future.
            self._set_clock(self._rng.choice(self._world.machines), HOUR_MS)
        self._wait()

    def end(self) -> None:
        self._over = True

    def _wait(self) -> None:
        wait_us = int(self._rng.expovariate(1 / self._mean_ms) * 1000)
        self._world.schedule.after(wait_us, self._strike)

    def _strike(self) -> None:
        if self._over:
            return
        kinds = [kind for kind, _ in self._kinds]
        self._rng.choices(kinds, [weight for _, weight in self._kinds])[0]()
        self._wait()

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        def unless_over() -> None:
            if not self._over:
                then()

        self._world.schedule.after(int(self._rng.expovariate(1 / seconds) * SECOND), unless_over)

    def _count(self, what: str) -> None:
        self._world.transcript.counts[what] += 1

    # --- machines ---

    def _some_machine(self) -> "Machine | None":
        up = [machine for machine in self._world.machines if machine.up]
        return self._rng.choice(up) if up else None

    def bring_back(self, machine: "Machine") -> None:
        """Somebody starts it again, in a moment or much later."""
        wait_s = 0.1 if self._over else self._rng.choice((0.05, 1.0, 5.0))

        def back() -> None:
            if not machine.up:
                machine.start()

        self._world.schedule.after(int(self._rng.expovariate(1 / wait_s) * SECOND), back)

    def _kill(self) -> None:
        machine = self._some_machine()
        if machine is not None:
            self._count("unclean stops")
            machine.kill()

    def _lose_power(self) -> None:
        machine = self._some_machine()
        if machine is not None:
            self._lose_power_of(machine)

    def _lose_power_of(self, machine: "Machine") -> None:
        if not self._world.plan.flush:
            if not self._may_impoverish(machine):
                return
            self._impoverish(machine, POWER)
        self._count("unclean stops")
        self._count("power losses")
        machine.lose_power()

    def _lose_disk(self) -> None:
        machine = self._some_machine()
        if machine is not None and self._may_impoverish(machine):
            self._impoverish(machine, DISK)
            self._count("unclean stops")
            self._count("disks lost")
            machine.lose_disk()

    def _kill_all_and_lose_a_disk(self) -> None:
        """The others have everything, on disks that nobody reads until they are started."""
        up = [machine for machine in self._world.machines if machine.up]
        if not up or self._poorer or self._world.plan.brokers == 1:
            return
        victim = self._rng.choice(up)
        for state in self._world.ensemble.states.values():
            members = (*state.isr, *state.elr)
            if victim.number in members and not any(each != victim.number for each in members):
                return
        self._count("all killed, a disk lost")
        self._rng.shuffle(up)
        for machine in up:
            if machine is not victim:
                machine.kill()
        self._impoverish(victim, DISK)
        victim.lose_disk()

    def _black_out(self) -> None:
        """All replicas of a partition are killed, and its leader loses its disk, or what it had not
        synced: the others come back with everything. In the second case the controller changes
        while it waits for them."""
        states = [each for each in self._world.ensemble.states.items() if each[1].leader > 0]
        if not states or self._poorer:
            return
        at, state = self._rng.choice(states)
        victim = self._world.machines[state.leader - 1]
        members = [(*each.isr, *each.elr) for each in self._world.ensemble.states.values()]
        if not victim.up or any(set(each) == {victim.number} for each in members):
            return
        self._count("blackouts")
        for number in self._world.ensemble.replicas[at]:
            machine = self._world.machines[number - 1]
            if machine.up and machine is not victim:
                machine.kill()
        how = self._rng.choice((DISK, POWER))
        self._impoverish(victim, how)
        if how == DISK:
            victim.lose_disk()
        else:
            victim.lose_power()
            self._later(3.0, self._depose)

    def _may_impoverish(self, machine: "Machine") -> bool:
        """Is all that it has elsewhere too? Nobody is promised more."""
        up = [each.number for each in self._world.machines if each.up and each is not machine]
        return (
            bool(up)
            and not self._poorer
            and all(
                any(other in state.isr for other in up)
                for state in self._world.ensemble.states.values()
                if machine.number in state.isr
            )
        )

    def _impoverish(self, machine: "Machine", how: str) -> None:
        for at, state in self._world.ensemble.states.items():
            members = (*state.isr, *state.elr)
            if machine.number in members:
                self._poorer[at, machine.number] = how
                self._complete[at] = tuple(each for each in members if each != machine.number)
        store, path = self._world.ensemble.store, broker_path(machine.number)
        if store.holds(path):
            self._poorer_epochs[machine.number, store.held(path).node.created] = None

    def elected(self, at: TopicPartition, before: State | None, state: State) -> None:
        """The controller has written a state: who has lost records may be out of the set now."""
        if self._lying_in_wait and before is not None and state.leader >= 0:
            self._ambush(before, state)
        waited = self._has_waited(at)
        for key in [key for key in self._poorer if key[0] == at]:
            if key[1] not in (*state.isr, *state.elr):
                del self._poorer[key]
            elif key[1] == state.leader and (
                (self._poorer[key] == POWER and waited) or self._none_is_complete(at, before)
            ):
                self._excused[at, state.epoch] = state.leader
        if state.leader < 0:
            self._leaderless_us.setdefault(at, self._world.schedule.now_us)
        else:
            self._leaderless_us.pop(at, None)
        for broker, epoch in zip(state.isr, state.isr_epochs, strict=False):
            new = before is None or broker not in before.isr
            if new and (broker, epoch) in self._poorer_epochs:
                self._poorer[at, broker] = DISK  # its leader had heard from it before
        if not any(key[0] == at for key in self._poorer):
            self._complete.pop(at, None)

    def _has_waited(self, at: TopicPartition) -> bool:
        """Who was killed leads when nobody else has come back in time, or was compared with them.
        Other worlds do not look at the time."""
        since_us = self._leaderless_us.get(at)
        waited_us = 0 if since_us is None else self._world.schedule.now_us - since_us
        return not self._world.plan.outages or waited_us >= 1000 * WAIT_MS

    def _none_is_complete(self, at: TopicPartition, state: State | None) -> bool:
        """All members have lost something, and so have those that were members before they did."""
        complete = self._complete.get(at, ())
        return state is not None and all(
            (at, each) in self._poorer for each in (*state.isr, *state.elr, *complete)
        )

    def excuse_offline(self, at: TopicPartition, state: State) -> None:
        """Raises Excused if nobody leads because all members have lost something: an operator would
        have to choose. A partition with a complete member must be led."""
        if self._none_is_complete(at, state):
            raise Excused(f"{at}: all of {state.isr} and {state.elr} have lost records: offline")

    def is_poorer(self, at: TopicPartition, broker: int) -> bool:
        """Has it lost what it is counted for?"""
        return (at, broker) in self._poorer

    def excuse(self, at: TopicPartition, epoch: int) -> None:
        """Raises Excused if the leader of that epoch was elected though it had lost its records,
        because no complete replica was left anywhere; or after a power loss, because nobody else
        came back in time."""
        broker = self._excused.get((at, epoch))
        if broker is not None:
            raise Excused(f"{at}: broker {broker} had lost records, and nobody else was left")

    def _stop(self) -> None:
        machine = self._some_machine()
        if machine is None or machine.broker is None:
            return
        self._count("clean stops")
        machine.stop()

    def _sicken(self) -> None:
        """The next sync of one of its files fails; perhaps the power of the next process, which
        still sees in memory what is not on the disk."""
        machine = self._some_machine()
        files = [] if machine is None else [path for path in machine.disk.opened if ".log" in path]
        if machine is not None and files:
            path = self._rng.choice(files)
            self._count("failed syncs")
            self._world.transcript.add(machine.name, f"will fail to sync {path}")
            machine.disk.fail_sync(path)
            if self._rng.random() < 0.5:
                self._lose_power_of_next_life(machine, machine.lives)

    def _lose_power_of_next_life(self, machine: "Machine", life: int) -> None:
        if self._over or machine.lives > life + 1:
            return
        if machine.lives == life or machine.broker is None:
            self._after(100, lambda: self._lose_power_of_next_life(machine, life))
        else:
            self._later(1.0, lambda: self._lose_power_of(machine))

    def _pause(self) -> None:
        machine = self._some_machine()
        if machine is not None:
            self._count("pauses")
            machine.pause(int(self._rng.choice((200, 2000, 8000)) * self._rng.random()) + 50)

    def _move(self) -> None:
        """An operator has a log moved to another directory; perhaps the power fails just then."""
        machine = self._some_machine()
        broker = None if machine is None else machine.broker
        if machine is None or broker is None or len(broker.logs.online()) < 2:
            return
        partitions = [
            each
            for topic in broker.topics
            for each in topic.partitions
            if each.log_directory is not None
        ]
        if partitions:
            partition = self._rng.choice(partitions)
            others = [each for each in broker.logs.online() if each is not partition.log_directory]
            self._count("moves")
            broker.moves.begin(partition, others[0])
            if self._rng.random() < 0.5:
                self._lose_power_after_move(machine, machine.lives, partition)

    def _lose_power_after_move(self, machine: "Machine", life: int, partition: "Partition") -> None:
        broker = machine.broker
        if self._over or broker is None or machine.lives != life:
            return
        if broker.moves.of(partition.name) is not None:
            self._after(0.2, lambda: self._lose_power_after_move(machine, life, partition))
        else:
            self._lose_power_of(machine)

    def _wedge(self) -> None:
        machine = self._some_machine()
        if machine is not None:
            self._count("wedged loops")
            machine.wedge(int(self._rng.choice((200, 2000, 12_000)) * self._rng.random()) + 50)

    def _jump(self) -> None:
        machine = self._rng.choice(self._world.machines)
        far = [100, 5_000, HOUR_MS, 10 * 365 * 86_400_000]
        # Tombstones are kept for a day, by the clock: who jumps over it must not be away then.
        if self._world.plan.compacts:
            far.pop()
        jump_ms = self._rng.choice((-1, 1)) * self._rng.choice(far)
        self._set_clock(machine, jump_ms)
        if self._rng.random() < 0.5:  # somebody notices, and sets it right
            self._later(2.0, lambda: self._set_clock(machine, -jump_ms))

    def _set_clock(self, machine: "Machine", jump_ms: int) -> None:
        machine.clock.skew_ms += jump_ms
        self._world.transcript.add(
            machine.name, f"has a clock that is {machine.clock.skew_ms} ms off"
        )

    # --- the keeper ---

    def _disconnect(self) -> None:
        """A session loses its connection, and with it its watches."""
        live = self._world.ensemble.live()
        if live:
            session = self._rng.choice(live)
            self._count("disconnects")
            self._world.transcript.add(session.name, "loses its connection to the keeper")
            session.cut_off()

    def _expire(self) -> None:
        live = self._world.ensemble.live()
        if live:
            session = self._rng.choice(live)
            self._count("sessions expired")
            self._world.transcript.add(session.name, "has its session expired")
            self._world.ensemble.store.expire(session.session)

    def _controller(self) -> KeeperSession | None:
        """The session of the broker that is one, as the keeper says."""
        store = self._world.ensemble.store
        if not store.holds("/controller"):
            return None
        return self._world.ensemble.sessions.get(store.held("/controller").node.owner)

    def _depose(self) -> None:
        """An operator deletes /controller, as one does to have another one elected; the one that
        was controller may be the last to hear of it, and may have followers that it misses."""
        store, session = self._world.ensemble.store, self._controller()
        if store.holds("/controller"):
            if session is not None:
                session.news_ms = self._rng.choice((1, 3000))
                if self._rng.random() < 0.5:
                    self._cut_all(
                        [
                            (other.name, session.name)
                            for other in self._world.machines
                            if other.name != session.name
                        ]
                    )
            self._count("depositions")
            self._world.transcript.add("operator", "deletes /controller")
            store.write([Delete("/controller")], 0)

    def _lie_in_wait(self) -> None:
        """For the next leader, or the next in-sync set that grows."""
        self._lying_in_wait = True

    def _ambush(self, before: State, state: State) -> None:
        """Elections follow each other faster than followers fetch; a leader does not hear that a
        set it has proposed holds, and dies."""
        leader = f"b{state.leader}"
        brokers = [each.name for each in self._world.machines if each.name != leader]
        pairs = [(leader, f"b{each}") for each in state.isr if each not in before.isr]
        if state.epoch > before.epoch:
            pairs = [(leader, each) for each in brokers] + [(each, leader) for each in brokers]
        elif pairs:
            controller = self._controller()
            if controller is not None and controller.name != leader:
                pairs.append((controller.name, leader))
        else:
            return
        self._lying_in_wait = False
        self._count("ambushes")
        wait_ms = 10 * self._rng.random() if state.epoch > before.epoch else 0
        fall_ms = self._rng.choice((300, 1000, 3000)) * (0.5 + self._rng.random())
        self._after(wait_ms, lambda: self._cut_all(pairs))
        self._after(wait_ms + fall_ms, lambda: self._expire_of(leader))

    def _after(self, ms: float, then: Callable[[], None]) -> None:
        self._world.schedule.after(int(ms * 1000), lambda: None if self._over else then())

    def _expire_of(self, name: str) -> None:
        for session in self._world.ensemble.live():
            if session.name == name:
                self._world.transcript.add(name, "has its session expired")
                self._count("sessions expired")
                self._world.ensemble.store.expire(session.session)

    def _restart_keeper(self) -> None:
        """It is back before any session is over."""
        self._count("restarts of the keeper")
        self._world.transcript.add(HOST, "is restarted")
        self._world.ensemble.store.restart()

    # --- cables ---

    def _hosts(self) -> list[str]:
        clients = [each.name for each in self._world.clients if not each.ended]
        brokers = [machine.name for machine in self._world.machines]
        return brokers + clients + ([HOST] if len(brokers) > 1 else [])

    def _cut(self) -> None:
        hosts = self._hosts()
        if len(hosts) < 2:
            return
        one, other = self._rng.sample(hosts, 2)
        pairs = [(one, other)] if self._rng.random() < 0.5 else [(one, other), (other, one)]
        self._cut_all(pairs)

    def _isolate(self) -> None:
        """One machine hears nobody, or is heard by nobody, or both."""
        machine = self._rng.choice(self._world.machines).name
        others = [host for host in self._hosts() if host != machine]
        if self._rng.random() < 0.5:
            others = [host for host in others if host.startswith("b")]  # not from clients
        deaf = [(other, machine) for other in others]
        mute = [(machine, other) for other in others]
        self._cut_all(self._rng.choice((deaf, mute, deaf + mute)))

    def _cut_all(self, pairs: list[tuple[str, str]], seconds: float = 0) -> None:
        self._count("cuts")
        for source, target in pairs:
            self._world.cables.cut(source, target)
        text = ", ".join(f"{source} to {target}" for source, target in pairs)
        self._world.transcript.add("network", f"cut: {text}")

        def mend() -> None:
            self._world.transcript.add("network", f"mended: {text}")
            for source, target in pairs:
                self._world.cables.mend(source, target)

        if seconds:
            self._after(1000 * seconds, mend)
        else:
            self._later(self._rng.choice((0.5, 3.0, 10.0)), mend)

    def _reset(self) -> None:
        self._count("resets")
        links = self._world.cables.reset_some(self._rng.choice((1, 2, 5)))
        text = ", ".join(f"{source} to {target}" for source, target in links)
        self._world.transcript.add("network", f"reset: {text}")

    def _slow(self) -> None:
        hosts = self._hosts()
        if len(hosts) < 2:
            return
        source, target = self._rng.sample(hosts, 2)
        self._world.cables.slow(source, target, self._rng.choice((10, 100, 1000)))
        self._world.transcript.add("network", f"slow: {source} to {target}")
        self._later(5.0, lambda: self._world.cables.slow(source, target, 1.0))

    # --- clients ---

    def _kill_client(self) -> None:
        alive = [each for each in self._world.clients if not each.ended]
        if len(alive) > 2:
            self._rng.choice(alive).kill()

    def _pause_client(self) -> None:
        """Perhaps for so long that others go on without it, and it does not know."""
        alive = [each for each in self._world.clients if not each.ended]
        if alive:
            self._count("clients paused")
            ms = int(self._rng.choice((1000, 5000, 12_000)) * self._rng.random()) + 50
            self._rng.choice(alive).stand_still(ms)

    def _mute_client(self) -> None:
        """What it sends arrives late, when others may have gone on without it."""
        alive = [each for each in self._world.clients if not each.ended]
        readers = [each for each in alive if isinstance(each, Reader)]
        if alive:
            self._mute(self._rng.choice(readers or alive))

    def _mute(self, client: Client) -> None:
        seconds = 4 + 5 * self._rng.random()
        self._cut_all([(client.name, each.name) for each in self._world.machines], seconds)

    def _bring_twin(self) -> None:
        """Another with the instance id of one who can be heard by nobody."""
        readers = [each for each in self._world.clients if isinstance(each, Reader)]
        alive = [each for each in readers if not each.ended]
        if alive and len(alive) < 6:
            reader = self._rng.choice(alive)
            self._mute(reader)
            self._world.add_reader(int(reader.instance.rpartition("-")[2]))

    def _new_reader(self) -> None:
        if sum(not each.ended for each in self._world.clients) < 8:
            self._world.add_reader()

    # --- transactions ---

    def _transactor(self) -> "Transactor | None":
        transactions = self._world.transactions
        found = [] if transactions is None else transactions.transactors()
        return self._rng.choice(found) if found else None

    def _kill_transactor(self) -> None:
        """Perhaps in a transaction; another one with its id comes in a moment, or much later."""
        client, transactions = self._transactor(), self._world.transactions
        if client is not None and transactions is not None:
            client.kill()
            self._later(self._rng.choice((0.2, 3.0)), lambda: transactions.add_twin(client))

    def _silence_transactor(self) -> None:
        """What it sends arrives late, or it stands still: perhaps until its transaction is over."""
        client = self._transactor()
        if client is not None and self._rng.random() < 0.5:
            client.stand_still(int(self._rng.choice((500, 3000, 9000)) * self._rng.random()) + 50)
        elif client is not None:
            seconds = self._rng.choice((1, 4)) * (0.5 + self._rng.random())
            machines = [each for each in self._world.machines if self._rng.random() < 0.7]
            self._cut_all([(client.name, each.name) for each in machines], seconds)

    def _fence_transactor(self) -> None:
        """Another one with its id, while it is there, or cannot be heard."""
        client, transactions = self._transactor(), self._world.transactions
        if client is not None and transactions is not None:
            if self._rng.random() < 0.6:
                self._mute(client)
            transactions.add_twin(client)

    # --- share groups ---

    def _sharer(self) -> "ShareMember | None":
        shares = self._world.shares
        found = [] if shares is None else shares.members()
        return self._rng.choice(found) if found else None

    def _kill_sharer(self) -> None:
        """With records that it holds; another one comes in a moment, or much later."""
        client, shares = self._sharer(), self._world.shares
        if client is not None and shares is not None:
            self._count("members of share groups killed")
            client.kill()
            self._later(self._rng.choice((0.2, 3.0)), lambda: shares.add_another(client.group))

    def _silence_sharer(self) -> None:
        """It stands still, or what it sends arrives late: perhaps until its locks have ended."""
        client, shares = self._sharer(), self._world.shares
        if client is None or shares is None:
            return
        if self._rng.random() < 0.5:
            client.stand_still(int(2.5 * shares.plan.lock_ms * self._rng.random()) + 50)
        else:
            seconds = 2 * shares.plan.lock_ms * self._rng.random() / 1000 + 0.1
            machines = [each for each in self._world.machines if self._rng.random() < 0.7]
            self._cut_all([(client.name, each.name) for each in machines], seconds)

    def _freeze_leader(self) -> None:
        """Until another one leads, and has read the states of share groups. When it goes on, its
        locks have ended, and it writes that before it hears of its successor."""
        shares = self._world.shares
        states = self._world.ensemble.states.items()
        leaders = [state.leader for at, state in states if at.topic == TOPIC and state.leader > 0]
        if shares is not None and leaders:
            self._count("leaders frozen")
            wait_ms = self._world.plan.session_ms + 500 + int(4000 * self._rng.random())
            self._world.machines[self._rng.choice(leaders) - 1].pause(wait_ms)

    def _new_sharer(self) -> None:
        shares = self._world.shares
        if shares is not None:
            shares.add_another(self._rng.choice(shares.plan.groups))
