"""Drives the controller on this broker: stands for election, and carries out what it decides.

In: the keeper's news, requests that only the controller answers. Out: writes to the keeper, each
with a check of this controller's epoch; messages to brokers, in order for each of them.
Always: one thing at a time, from one queue; whoever loses its epoch or its session forgets all it
knows at once, and answers NOT_CONTROLLER.
Not here: what is decided (controller/), where nodes are (controller_store.py), sessions and
registration (cluster.py), what requests look like (controller_requests.py).
"""

import asyncio
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from secrets import randbelow
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from uuid import UUID, uuid4

from barnabas.broker.controller_store import ControllerStore, Deposed, give_up, stand
from barnabas.broker.couriers import Couriers
from barnabas.config.kinds import Address
from barnabas.controller.controller import Controller
from barnabas.controller.steps import Conflict, Say, Send, Settle, Steps, Write
from barnabas.controller.story import Entry
from barnabas.controller.term import Options
from barnabas.keeper.controller_paths import CONTROLLER
from barnabas.keeper.keeper import Event, Keeper, KeeperError, SessionState, Unavailable
from barnabas.keeper.paths import BROKERS
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.ids import BrokerId
from barnabas.wire.codec import Message
from barnabas.wire.messages.update_metadata import UpdateMetadataResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.peers import Peers

T = TypeVar("T")

AGAIN_MS = 50  # until it stands again after something went wrong
AGAIN_MS_MAX = 2_000
QUEUE_MAX = 10_000


class InThread(Protocol):
    """Runs a call that may block where the keeper's calls run, one after the other."""

    def __call__(self, call: Callable[[], T]) -> Awaitable[T]: ...


Verb = Callable[[Controller, int], Steps[T]]
"""What is wanted of the controller, and when."""


class _Job(NamedTuple):
    verb: Verb[Any]
    done: "asyncio.Future[Any] | None"
    sent: "list[asyncio.Future[None]]"


class _Term:
    """While this broker is controller."""

    def __init__(self, controller: Controller, store: ControllerStore) -> None:
        self.controller = controller
        self.store = store
        self.couriers: Couriers
        self.queue: deque[_Job] = deque()
        self.more = asyncio.Event()
        self.brokers_unread = False
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None


class Controlling:
    """Every broker of a cluster has one; in one of them, at a time, it is active."""

    def __init__(
        self,
        broker: "Broker",
        peers: "Peers",
        in_thread: InThread,
        chance: Callable[[int], int] = randbelow,
        new_id: Callable[[], UUID] = uuid4,
    ) -> None:
        self._broker = broker
        self._chance = chance
        self._new_id = new_id
        self._peers = peers
        self._in_thread = in_thread
        self._keeper: Keeper | None = None
        self._term: _Term | None = None
        self._looking: asyncio.Task[None] | None = None
        self._look_again = False
        self._stopped = False
        self.controller: BrokerId | None = None
        """Who is controller, as /controller says; None: nobody, or not known now."""
        self.epoch = 0
        """Of the last controller that is known."""
        self.elections = 0
        self.unclean_elections = 0
        self.election_ms_last = 0
        self.election_ms_total = 0

    # What is seen from outside; of the cluster, only while active

    @property
    def active(self) -> bool:
        return self._term is not None

    @property
    def queue_length(self) -> int:
        return 0 if self._term is None else len(self._term.queue)

    @property
    def offline_partitions(self) -> int:
        return 0 if self._term is None else len(self._term.controller.cluster.leaderless)

    @property
    def under_replicated(self) -> int:
        return 0 if self._term is None else self._term.controller.cluster.under_replicated

    @property
    def preferred_imbalance(self) -> int:
        return 0 if self._term is None else self._term.controller.cluster.imbalanced

    def story(self, since: int = 0) -> list[Entry]:
        """What happened after the entry of this number, in this term."""
        return self._active().controller.story.since(since)

    @property
    def machine(self) -> Controller:
        """To look at."""
        return self._active().controller

    # From cluster.py, on the loop

    async def stand(self, keeper: Keeper) -> None:
        """A session is open and this broker is registered: stand for election in it.

        Called again with each new session. Returns when it is known who is controller.
        """
        self._resign("a new session has begun")
        self._keeper = keeper
        self._stopped = False
        self._look()
        while self.controller is None and self._looking is not None:
            await asyncio.wait([self._looking])

    def heard(self, news: Event | SessionState) -> None:
        """What the session's listener was told. Events of other paths are not looked at."""
        if news is SessionState.CONNECTED:  # watches are gone
            self._look()
        elif isinstance(news, SessionState):
            self.controller = None
            self._resign(f"its session is {news.value}")
        elif news.path == CONTROLLER:
            self._look()
        elif news.path == BROKERS and self._term is not None:
            self._read_brokers(self._term)

    async def stop(self) -> None:
        """Resign, and give /controller back if it is ours."""
        self._stopped = True
        active, keeper = self.active, self._keeper
        self._resign("this broker is stopping")
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if active and keeper is not None:
            await self._in_thread(lambda: give_up(keeper))

    # Election

    def _look(self) -> None:
        """Who is controller? If nobody, this broker wants to be."""
        self._look_again = True
        if self._keeper is not None and (self._looking is None or self._looking.done()):
            self._looking = self._broker.loop.create_task(self._campaign())

    async def _campaign(self) -> None:
        wait_ms = AGAIN_MS
        while self._look_again and not self._stopped:
            self._look_again = False
            keeper, holding = self._keeper, self.active
            assert keeper is not None
            own, now = BrokerId(self._broker.id), self._broker.clock.wall_ms()
            try:
                found = await self._in_thread(
                    lambda: stand(keeper, own, now, holding=holding)  # noqa: B023
                )
            except (Unavailable, KeeperError) as error:
                # When it is connected again, that is heard; when it is not, another session comes.
                self._broker.log.warning("no election yet", reason=str(error))
                await asyncio.sleep(wait_ms / 1000)
                wait_ms = min(2 * wait_ms, AGAIN_MS_MAX)
                self._look_again = keeper is self._keeper
                continue
            if keeper is not self._keeper or holding != self.active:
                self._look_again = True
                continue
            if found is None:
                self._look_again = True
                continue
            self.controller, self.epoch = found.controller, found.epoch
            if found.store is not None:
                self._begin(found.store, found.epoch)
            elif holding and found.controller != own:
                self._resign(f"broker {found.controller} is controller")

    def _begin(self, store: ControllerStore, epoch: int) -> None:
        broker = self._broker
        options = Options(
            unclean=broker.config.unclean_leader_election_enable,
            rebalance=broker.config.auto_leader_rebalance_enable,
            rebalance_interval_ms=1000 * broker.config.leader_imbalance_check_interval_seconds,
            imbalance_percent=broker.config.leader_imbalance_per_broker_percentage,
        )
        controller = Controller(BrokerId(broker.id), epoch, options, self._chance, self._new_id)
        term = self._term = _Term(controller, store)
        term.couriers = Couriers(
            self._peers,
            controller.cluster.epoch,
            lambda *answer: self._answered(term, *answer),
            lambda id_: self._put(term, lambda machine, now: machine.retell(id_, now)),
        )
        self._put(term, lambda machine, now: machine.take_over(now))
        term.task = broker.loop.create_task(self._work(term))

    def _resign(self, reason: str) -> None:
        """Forget all: another may have changed it already."""
        term, self._term = self._term, None
        if term is None:
            return
        self._broker.log.warning("no longer controller", epoch=self.epoch, reason=reason)
        term.couriers.close()
        if term.timer is not None:
            term.timer.cancel()
        if term.task is not None and term.task is not asyncio.current_task():
            term.task.cancel()
        for job in term.queue:
            _refuse(job, self._not_controller())
        term.queue.clear()

    # The queue

    def _put(self, term: _Term, verb: Verb[Any]) -> None:
        """Something that nobody waits for."""
        term.queue.append(_Job(verb, None, []))
        term.more.set()

    async def ask(self, verb: Verb[T], *, told_within_ms: int = 0) -> T:
        """What the controller says. If wanted, only after all brokers concerned know of it."""
        term = self._active()
        if len(term.queue) >= QUEUE_MAX:
            raise Retriable(
                Code.REQUEST_TIMED_OUT, f"the controller has {len(term.queue)} requests to answer"
            )
        job = _Job(verb, self._broker.loop.create_future(), [])
        assert job.done is not None
        term.queue.append(job)
        term.more.set()
        answer: T = await job.done
        if job.sent and told_within_ms > 0:
            await asyncio.wait(job.sent, timeout=told_within_ms / 1000)
        return answer

    def _read_brokers(self, term: _Term) -> None:
        if not term.brokers_unread:
            term.brokers_unread = True
            self._put(term, self._brokers_changed)

    def _brokers_changed(self, machine: Controller, now: int) -> Steps[None]:
        if self._term is not None:
            self._term.brokers_unread = False
        return machine.brokers_changed(now)

    def _answered(self, term: _Term, broker: BrokerId, request: Message, answer: Message) -> None:
        code = getattr(answer, "error_code", 0)
        if code == Code.STALE_CONTROLLER_EPOCH:  # is there a later one?
            self._put(term, lambda machine, now: _check_epoch())
        elif code == Code.NONE and not isinstance(answer, UpdateMetadataResponse):
            self._put(term, lambda machine, now: machine.answered(broker, request, answer, now))

    async def _work(self, term: _Term) -> None:
        problem = ""
        try:
            while True:
                while not term.queue:
                    term.more.clear()
                    await term.more.wait()
                job = term.queue[0]
                try:
                    await self._do(term, job)
                except asyncio.CancelledError:
                    _refuse(job, self._not_controller())
                    raise
                except KafkaError as error:
                    if isinstance(error, Unavailable):
                        raise
                    _refuse(job, error)
                if self._term is not term:
                    return
                term.queue.popleft()
                self._set_timer(term)
        except Deposed as error:
            problem = f"another controller was elected: {error}"
        except Unavailable as error:
            problem = f"the keeper does not answer: {error.detail}"
        except Conflict as error:
            problem = f"the keeper has something else than this controller: {error}"
        except Exception as error:
            problem = f"it failed: {error!r}"
            trace = "".join(traceback.format_exception(error))
            self._broker.log.error("controller failed", error=repr(error), trace=trace)
        self._resign(problem)
        # Everything is read anew, by whoever is controller next.
        self._broker.loop.call_later(AGAIN_MS / 1000, self._look)

    async def _do(self, term: _Term, job: _Job) -> None:
        machine, clock = term.controller, self._broker.clock
        began, elected = clock.monotonic_ms(), machine.elections
        unclean = machine.unclean_elections
        answer = await self._carry_out(term, job.verb(machine, clock.wall_ms()), job)
        if machine.elections > elected:
            self.elections += machine.elections - elected
            self.unclean_elections += machine.unclean_elections - unclean
            self.election_ms_last = clock.monotonic_ms() - began
            self.election_ms_total += self.election_ms_last
        if job.done is not None and not job.done.done():
            job.done.set_result(answer)

    async def _carry_out(self, term: _Term, steps: Steps[T], job: _Job) -> T:
        answer: object = None
        conflict: Conflict | None = None
        while True:
            try:
                step = steps.send(answer) if conflict is None else steps.throw(conflict)
            except StopIteration as end:
                value: T = end.value
                return value
            answer = conflict = None
            if isinstance(step, Send):
                job.sent.append(self._send(term, step))
            elif isinstance(step, Say):
                log = self._broker.log
                (log.warning if step.loud else log.info)(step.event, **step.values)
            else:
                try:
                    answer = await self._ask_keeper(term.store, step)
                except Conflict as found:
                    conflict = found

    async def _ask_keeper(self, store: ControllerStore, step: Any) -> object:
        if isinstance(step, Write):
            return await self._in_thread(lambda: store.write(step.changes))
        return await self._in_thread(lambda: store.read(step))

    def _send(self, term: _Term, step: Send) -> "asyncio.Future[None]":
        brokers = term.controller.cluster.brokers
        self._peers.known(
            {
                id_: Address(each.endpoints[0].host, each.endpoints[0].port)
                for id_, each in brokers.items()
                if each.endpoints
            }
        )
        return term.couriers.send(step.broker, step.message)

    def _set_timer(self, term: _Term) -> None:
        at = term.controller.next_deadline()
        if term.timer is None and at is not None:
            wait_ms = max(0, at - self._broker.clock.wall_ms())
            term.timer = self._broker.loop.call_later(wait_ms / 1000, self._tick, term)

    def _tick(self, term: _Term) -> None:
        term.timer = None
        if self._term is term:
            self._put(term, lambda machine, now: machine.tick(now))

    # From handlers and the catalog, on the broker that is controller. Each raises NOT_CONTROLLER
    # elsewhere; each answers when all live brokers know of it, or after `timeout_ms`.

    async def create_topic(
        self,
        name: str,
        partitions: int,
        factor: int,
        settings: Mapping[str, str],
        *,
        placed: Sequence[Sequence[BrokerId]] | None = None,
        timeout_ms: int,
    ) -> UUID:
        """Placed as Kafka would, or as told."""
        topic = await self.ask(
            lambda machine, now: machine.create_topic(
                name, partitions, factor, settings, placed, now
            ),
            told_within_ms=timeout_ms,
        )
        return topic.id

    async def add_partitions(
        self,
        name: str,
        total: int,
        *,
        placed: Sequence[Sequence[BrokerId]] | None = None,
        timeout_ms: int,
    ) -> None:
        await self.ask(
            lambda machine, now: machine.add_partitions(name, total, placed, now),
            told_within_ms=timeout_ms,
        )

    async def delete_topic(self, name: str, id_: UUID, *, timeout_ms: int) -> None:
        await self.ask(
            lambda machine, now: machine.delete_topic(name, id_, now), told_within_ms=timeout_ms
        )

    async def configure_topic(self, name: str, change: Settle) -> dict[str, str]:
        """The settings now; every broker is told by a note in the keeper."""
        return await self.ask(lambda machine, now: machine.configure("topics", name, change, now))

    async def configure_broker(self, broker: int | None, change: Settle) -> dict[str, str]:
        """Of one broker, or of all (None)."""
        name = "" if broker is None else str(broker)
        return await self.ask(lambda machine, now: machine.configure("brokers", name, change, now))

    # Inside

    def _active(self) -> _Term:
        if self._term is None:
            raise self._not_controller()
        return self._term

    def _not_controller(self) -> Retriable:
        who = "nobody" if self.controller is None else f"broker {self.controller}"
        return Retriable(
            Code.NOT_CONTROLLER, f"broker {self._broker.id} is not the controller, {who} is"
        )


def _check_epoch() -> Steps[None]:
    yield Write([])


def _refuse(job: _Job, error: KafkaError) -> None:
    if job.done is not None and not job.done.done():
        job.done.set_exception(error)
