"""A machine with a broker on it: started, killed, powered off, stopped for a while, started again.

In: what befalls it. Out: a Broker that runs on a virtual loop, disk and network, or none.
Always: what a dead process left on its way stays on its way; nothing of it runs any more.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import NamedTuple
from uuid import UUID

from barnabas.broker.broker import Broker
from barnabas.broker.main import _joined
from barnabas.keeper.keeper import KeeperError, Listener
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from tests.simulator.disk import SimulatedDisk
from tests.simulator.keeper import Ensemble
from tests.simulator.loop import DISK_US, Schedule, VirtualLoop
from tests.simulator.network import Cables
from tests.simulator.outside import WALL_US
from tests.simulator.transcript import Transcript, TranscriptLogger

DATA = "/data"
DIRECTORIES = f"{DATA}/one,{DATA}/two"  # where logs move from one to the other
PORT = 9092


class VirtualClock:
    """The clocks of one machine: the one people read may be wrong, and may jump."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.skew_ms = 0

    def monotonic_ms(self) -> int:
        return self._schedule.now_us // 1000

    def wall_ms(self) -> int:
        return (WALL_US + self._schedule.now_us) // 1000 + self.skew_ms


class Durable(NamedTuple):
    """Below this offset, a log survives a loss of power: so said the broker."""

    topic_id: UUID
    offset: int


class Machine:
    """`session_ms`: of its session with the keeper; 0 if it stands alone.

    `after_turn` is called whenever something on it may have changed, `died` when it is
    down."""

    def __init__(
        self,
        number: int,
        schedule: Schedule,
        cables: Cables,
        ensemble: Ensemble,
        transcript: Transcript,
        rng: Random,
        settings: Mapping[str, str],
        session_ms: int,
        after_turn: "Callable[[Machine], None]",
        died: "Callable[[Machine], None]",
    ) -> None:
        self.number = number
        self.name = f"b{number}"
        self.clock = VirtualClock(schedule)
        self.disk = SimulatedDisk()
        self.loop: VirtualLoop | None = None
        self.broker: Broker | None = None
        self.logger = TranscriptLogger(transcript, self.name)
        self.lives = 0
        self.durable: dict[TopicPartition, Durable] = {}  # when its last process ended
        self.slowness = 1.0
        self.disk_us = DISK_US
        self._schedule = schedule
        self._cables = cables
        self._ensemble = ensemble
        self._transcript = transcript
        self._rng = rng
        self._settings = settings
        self._session_ms = session_ms
        self._after_turn = after_turn
        self._died = died

    @property
    def up(self) -> bool:
        return self.loop is not None

    def start(self) -> None:
        assert self.loop is None
        self.lives += 1
        self.loop = loop = VirtualLoop(self.name, self._schedule, self.slowness)
        loop.disk, loop.disk_us = self.disk, self.disk_us
        loop.before_turn = self._before_turn
        loop.after_turn = partial(self._after_turn, self)
        loop.complained = self._complained
        self._transcript.add(self.name, f"starts, life {self.lives}")
        loop.call_soon(self._start, loop)

    def _start(self, loop: VirtualLoop) -> None:
        loop.create_task(self._serve(loop))

    async def _serve(self, loop: VirtualLoop) -> None:
        settings = {
            "node.id": str(self.number),
            "listeners": f"PLAINTEXT://{self.name}:{PORT}",
            "log.dirs": DATA,
            **self._settings,
        }
        broker = Broker(
            settings,
            self.clock,
            self.disk,
            self._cables.door(loop, self.name),
            self._keeper(loop),
            self.logger,
        )
        self.broker = broker
        try:
            joined = await _joined(broker)
        except (KafkaError, KeeperError, OSError) as error:
            self._transcript.add(self.name, f"could not start: {error}")
            with suppress(KafkaError, KeeperError, OSError):
                await broker.stop()
            self.die("gives up", power=False)
            return
        if joined:
            self._transcript.add(self.name, "is ready")
            await broker.stopping.wait()
            self._transcript.add(self.name, "stops")
            try:
                await broker.stop()
            except (KafkaError, OSError) as error:  # as broker/main.py: said, and an end
                self._transcript.add(self.name, f"did not stop well: {error}")
        self.die("has stopped", power=False)

    def _keeper(self, loop: VirtualLoop) -> "MemoryKeeper | Callable[[Listener], MemoryKeeper]":
        if not self._session_ms:
            return MemoryKeeper(self._ensemble.store)
        return self._ensemble.opener(self.name, loop, self._session_ms)

    def stop(self) -> None:
        """In good order."""
        if self.broker is not None:
            self.broker.stopping.set()

    def kill(self) -> None:
        """kill -9: what was written stays written."""
        self.die("is killed", power=False)

    def lose_power(self) -> None:
        """What was not synced may be gone."""
        self.die("loses power", power=True)

    def die(self, how: str, *, power: bool) -> None:
        if self.loop is None:
            return
        self._transcript.add(self.name, how)
        if self.broker is not None and self.broker.logs.log_directories:
            self.durable = {
                name: Durable(log.topic_id, log.durable_offset)
                for name, log in self.broker.logs.logs.items()
            }
        self.loop.die()
        self.loop = None
        self.broker = None
        self._cables.gone(self.name)
        self.disk = self.disk.crash(self._rng) if power else self.disk.kill()
        self._died(self)

    def lose_disk(self) -> None:
        """Dead, and comes back with an empty one."""
        self.die("loses its disk", power=False)
        self.disk = SimulatedDisk()
        self.durable.clear()

    def pause(self, ms: int) -> None:
        if self.loop is not None:
            self._transcript.add(self.name, f"stands still for {ms} ms")
            self.loop.pause(self._schedule.now_us + ms * 1000)

    def wedge(self, ms: int) -> None:
        if self.loop is not None:
            self._transcript.add(self.name, f"hangs in a call for {ms} ms")
            self.loop.wedge(self._schedule.now_us + ms * 1000)

    def _before_turn(self) -> None:
        now_us = self._schedule.now_us  # as the clock has it, without two calls for each turn
        self.disk.wall_ms = (WALL_US + now_us) // 1000 + self.clock.skew_ms

    def _complained(self, context: dict[str, object]) -> None:
        problem = context.get("exception")
        text = f"{context.get('message')}: {problem!r}"
        trace = ""
        if isinstance(problem, BaseException):
            from traceback import format_exception

            trace = "".join(format_exception(problem))
        with suppress(Exception):
            self._transcript.add(self.name, f"error: {text}")
        self.logger.faults.append(f"{text}\n{trace}")
