"""Stands for election as controller, and answers what only the controller answers.

In: sessions of the keeper and their events. Out: which broker is controller; if it is this one, the
active controller (active_controller.py).
Always: a controller that loses its epoch or its session drops its state at once, and answers
NOT_CONTROLLER.
Not here: sessions and registration (broker/cluster/membership.py), where nodes are (store.py).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from secrets import randbelow
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID, uuid4

from barnabas.broker.controller.active_controller import (
    ActiveController,
    ControllerOperation,
    ElectionCounts,
    InThread,
)
from barnabas.broker.controller.store import Elected, give_up, stand
from barnabas.controller.controller import Controller
from barnabas.controller.history import HistoryEntry
from barnabas.controller.steps import Settle
from barnabas.controller.tenure import UNCLEAN, ControllerOptions
from barnabas.keeper.controller_paths import CONTROLLER
from barnabas.keeper.keeper import (
    Disconnected,
    Event,
    Keeper,
    KeeperError,
    OutcomeUnknown,
    SessionExpired,
    SessionState,
)
from barnabas.keeper.paths import BROKERS
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.ids import BrokerId

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.cluster.peers import Peers

T = TypeVar("T")

AGAIN_MS = 50  # until it stands for election again after a failure
AGAIN_MS_MAX = 2_000
LOOK_S = 5  # periodically: a lost watch must not matter for long


class ControllerElection:
    """Every broker of a cluster has one; it is active on one broker at a time."""

    def __init__(
        self,
        broker: "Broker",
        peers: "Peers",
        in_thread: InThread,
        resigned: Callable[[], None] = lambda: None,
        chance: Callable[[int], int] = randbelow,
        new_id: Callable[[], UUID] = uuid4,
    ) -> None:
        """`chance` returns a random number below its argument."""
        self._broker = broker
        self._chance = chance
        self._new_id = new_id
        self._peers = peers
        self._in_thread = in_thread
        self._resigned = resigned
        self._keeper: Keeper | None = None
        self._active_controller: ActiveController | None = None
        self._counts = ElectionCounts()
        self._looking: asyncio.Task[None] | None = None
        self._look_again = False
        self._again_ms = AGAIN_MS
        self._backoff: asyncio.TimerHandle | None = None  # until the next election
        self._election: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self.controller: BrokerId | None = None
        """The controller, from /controller; None: there is none, or it is not known now."""
        self.epoch = 0
        """Of the latest controller that is known."""

    # Queries; about the cluster, only while active

    @property
    def active(self) -> bool:
        return self._active_controller is not None

    @property
    def machine(self) -> Controller:
        """For inspection."""
        return self._active().machine

    @property
    def queue_length(self) -> int:
        return 0 if self._active_controller is None else len(self._active_controller)

    @property
    def offline_partitions(self) -> int:
        return len(self.machine.cluster.leaderless) if self.active else 0

    @property
    def under_replicated(self) -> int:
        return self.machine.cluster.under_replicated if self.active else 0

    @property
    def preferred_imbalance(self) -> int:
        return self.machine.cluster.imbalanced if self.active else 0

    @property
    def elections(self) -> int:
        return self._counts.held

    @property
    def unclean_elections(self) -> int:
        return self._counts.unclean

    @property
    def election_ms_last(self) -> int:
        return self._counts.ms_last

    @property
    def election_ms_total(self) -> int:
        return self._counts.ms_total

    def history(self, since: int = 0) -> list[HistoryEntry]:
        """The entries after this number, of this tenure."""
        return self.machine.history.since(since)

    # From broker/cluster/membership.py, on the loop

    async def stand(self, keeper: Keeper) -> None:
        """A session is open and this broker is registered: stand for election in it.

        Called again with each new session. Returns when the controller is known; Unavailable if the
        session has expired before.
        """
        self._resign("a new session has begun")
        self._end_rest()
        self._stopped = False
        self._keeper = keeper
        self.controller = None
        election = self._election = self._broker.loop.create_future()
        self._look()
        if self._timer is None:
            self._timer = self._broker.loop.call_later(LOOK_S, self._look_unasked)
        await election

    def heard(self, news: Event | SessionState) -> None:
        """An event of the session. Events of other paths are ignored."""
        if news is SessionState.CONNECTED:  # watches are lost
            self._look()
        elif isinstance(news, SessionState):
            self.controller = None
            self._resign(f"its session is {news.value}")
            if news is SessionState.EXPIRED:
                self._expired()
        elif news.path == CONTROLLER:
            self._look()
        elif news.path == BROKERS and self._active_controller is not None:
            self._active_controller.brokers_changed()

    async def stop(self) -> None:
        """Resign, and delete /controller if it is ours."""
        self._stopped = True
        active, keeper = self.active, self._keeper
        self._resign("this broker is stopping")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end_rest()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._election is not None:
            self._election.cancel()
        if active and keeper is not None:
            await self._in_thread(lambda: give_up(keeper))

    # Election

    def _expired(self) -> None:
        """Nothing more can be done in this session."""
        self._keeper = None
        if self._election is not None and not self._election.done():
            self._election.set_exception(SessionExpired("the session expired before an election"))

    def _look(self) -> None:
        """Read who is controller; if there is none, try to become it."""
        self._look_again = True
        if self._backoff is not None:
            return
        if self._keeper is not None and (self._looking is None or self._looking.done()):
            self._looking = self._broker.loop.create_task(self._campaign())

    def _look_unasked(self) -> None:
        self._timer = self._broker.loop.call_later(LOOK_S, self._look_unasked)
        self._look()
        if self._active_controller is not None:
            self._active_controller.brokers_changed()

    async def _campaign(self) -> None:
        wait_ms = AGAIN_MS
        while (
            self._look_again
            and self._keeper is not None
            and self._backoff is None
            and not self._stopped
        ):
            self._look_again = False
            keeper, holding = self._keeper, self.active
            try:
                found = await self._in_thread(partial(self._stand, keeper, holding))
            except SessionExpired:
                if keeper is self._keeper:
                    self._expired()
                continue
            except (Disconnected, OutcomeUnknown):
                return  # an event follows when it is connected again
            except (KafkaError, KeeperError) as error:
                self._broker.log.warning("controller election failed, retrying", reason=str(error))
                await asyncio.sleep(wait_ms / 1000)
                wait_ms = min(2 * wait_ms, AGAIN_MS_MAX)
                self._look_again = True
                continue
            if found is None or keeper is not self._keeper or holding != self.active:
                self._look_again = True
                continue
            self._found(found, holding)

    def _stand(self, keeper: Keeper, holding: bool) -> Elected | None:
        own, now = BrokerId(self._broker.id), self._broker.clock.wall_ms()
        return stand(keeper, own, now, holding=holding)

    def _found(self, found: Elected, holding: bool) -> None:
        if found.store is not None:
            self._resign("/controller was deleted, and this broker is elected again")
        self.controller, self.epoch = found.controller, found.epoch
        if found.store is not None:
            self._active_controller = ActiveController(
                self._broker,
                self._peers,
                self._in_thread,
                self._new_machine(found.epoch),
                found.store,
                self._counts,
                self._over,
            )
        elif holding and found.controller != self._broker.id:
            self._resign(f"broker {found.controller} is controller")
        if self._election is not None and not self._election.done():
            self._election.set_result(None)

    def _new_machine(self, epoch: int) -> Controller:
        config = self._broker.config
        options = ControllerOptions(
            unclean=config.unclean_leader_election_enable,
            unclean_static=self._broker.static.get(UNCLEAN) == "true",
            rebalance=config.auto_leader_rebalance_enable,
            rebalance_interval_ms=1000 * config.leader_imbalance_check_interval_seconds,
            imbalance_percent=config.leader_imbalance_per_broker_percentage,
        )
        return Controller(BrokerId(self._broker.id), epoch, options, self._chance, self._new_id)

    def _over(self, active_controller: ActiveController, problem: str) -> None:
        """The next controller reads everything again."""
        if self._active_controller is not active_controller:
            return
        self._again_ms = (
            AGAIN_MS if active_controller.worked else min(2 * self._again_ms, AGAIN_MS_MAX)
        )
        self._resign(problem)
        # Events are ignored meanwhile: its own election changes /controller too, and a broker that
        # cannot read the keeper's data would be elected again and again, without a pause.
        self._end_rest()
        self._backoff = self._broker.loop.call_later(self._again_ms / 1000, self._backoff_over)

    def _backoff_over(self) -> None:
        self._backoff = None
        self._look()

    def _end_rest(self) -> None:
        if self._backoff is not None:
            self._backoff.cancel()
            self._backoff = None

    def _resign(self, reason: str) -> None:
        """Drop all state: another controller may have changed it already."""
        active_controller, self._active_controller = self._active_controller, None
        if active_controller is not None:
            self._broker.log.warning("no longer controller", epoch=self.epoch, reason=reason)
            active_controller.close(self._not_controller())
            self._resigned()

    # From handlers and the catalog, on the broker that is controller; NOT_CONTROLLER elsewhere.

    async def ask(self, operation: ControllerOperation[T], *, wait_for_brokers_ms: int = 0) -> T:
        """The result. With `wait_for_brokers_ms`, only after all affected brokers know of it."""
        return await self._active().ask(operation, wait_for_brokers_ms)

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
        """Placed as Kafka would, or with the given assignments."""
        topic = await self.ask(
            lambda machine, now: machine.create_topic(
                name, partitions, factor, settings, placed, now
            ),
            wait_for_brokers_ms=timeout_ms,
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
            wait_for_brokers_ms=timeout_ms,
        )

    async def delete_topic(self, name: str, id_: UUID, *, timeout_ms: int) -> None:
        await self.ask(
            lambda machine, now: machine.delete_topic(name, id_, now),
            wait_for_brokers_ms=timeout_ms,
        )

    async def configure_topic(self, name: str, change: Settle) -> dict[str, str]:
        """The new settings; a notification in the keeper reaches every broker."""
        return await self.ask(lambda machine, now: machine.configure("topics", name, change, now))

    async def configure_broker(self, broker: int | None, change: Settle) -> dict[str, str]:
        """Of one broker, or of all (None)."""
        name = "" if broker is None else str(broker)
        return await self.ask(lambda machine, now: machine.configure("brokers", name, change, now))

    async def configure_entity(self, kind: str, name: str, change: Settle) -> dict[str, str]:
        """Of a group, a user, or a subscription to client metrics."""
        return await self.ask(lambda machine, now: machine.configure(kind, name, change, now))

    # Internal

    def _active(self) -> ActiveController:
        if self._active_controller is None:
            raise self._not_controller()
        return self._active_controller

    def _not_controller(self) -> Retriable:
        who = "no broker" if self.controller is None else f"broker {self.controller}"
        return Retriable(
            Code.NOT_CONTROLLER, f"broker {self._broker.id} is not the controller, {who} is"
        )
