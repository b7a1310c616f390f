"""The thread of a blocking producer: it sends what is due, and calls callbacks.

Always: callbacks are called without the lock, because they may wait for a thread that sends; if the
thread fails, all callers that wait get the error; the thread ends with its producer.
Not here: which batches are due (sender.py), callers that wait (producer.py).
"""

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable

from barnabas.client.blocking.sender import Ready, Sender, SenderWait, SocketWakeUp
from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.batches import Delivery, ProducerBatch, complain
from barnabas.client.producer.outbox import Outbox
from barnabas.model.errors import Code, Failed, KafkaError


class BlockingAccumulator(Accumulator):
    """Keeps finished batches for the thread that calls their callbacks."""

    waiting: Callable[[Delivery, float | None], None]
    lock: "threading.RLock"
    uncalled: deque[ProducerBatch]  # done, and their callbacks not yet called
    announced: int  # that came to `uncalled` so far

    def announce(self, batch: ProducerBatch) -> None:
        if batch.callbacks:
            self.uncalled.append(batch)
            self.announced += 1

    def failure_reported(self, batch: ProducerBatch) -> None:
        with self.lock:
            super().failure_reported(batch)

    def wait(self, delivery: Delivery, timeout: float | None) -> None:
        self.waiting(delivery, timeout)


class SenderThread:
    """Of one producer; it starts at the first `wake`. `on_failed` is called under the lock."""

    sender: Sender
    outbox: Outbox
    accumulator: BlockingAccumulator

    def __init__(self, changed: threading.Condition, on_failed: Callable[[], None]) -> None:
        self._changed = changed
        self._on_failed = on_failed
        self._thread: threading.Thread | None = None
        self._called_back = 0  # batches whose callbacks were called
        self.problem: KafkaError | None = None  # why the thread has ended

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    @property
    def announced(self) -> int:
        """Batches whose callbacks are to be called, of all time."""
        return self.accumulator.announced

    def has_called_back(self, count: int) -> bool:
        """Whether the callbacks of that many batches were called."""
        return self._called_back >= count

    def wake(self) -> None:
        """Called under the lock."""
        if self._thread is not None:
            self.sender.wake()
            return
        wake_up = self.sender.wake_up = SocketWakeUp()
        held = weakref.ref(self, lambda _: wake_up.notify())
        self._thread = threading.Thread(
            target=_serve, args=(held, wake_up), name="barnabas-producer", daemon=True
        )
        self._thread.start()

    def wake_if_running(self) -> None:
        if self._thread is not None:
            self.wake()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def turn(self, ready: list[Ready]) -> SenderWait | None:
        """Send what is due and read these sockets; returns what to wait for. None: it ends."""
        try:
            self.sender.take_in(ready)
            while not self.sender.stopping:
                busy = self.sender.due()
                if not self.call_back() and not busy:
                    return self.sender.rest()
        except BaseException as why:
            self._broken(why)
        self.call_back()
        with self._changed:
            self.sender.wake_up = None
        return None

    def _broken(self, why: BaseException) -> None:
        if self.sender.stopping:
            return  # all was given up already
        logging.getLogger("barnabas.client").exception("the producer's thread has failed")
        with self._changed:
            self.sender.stopping = True
            said = f"the producer's thread has failed: {type(why).__name__}: {why}"
            self.problem = Failed(Code.UNKNOWN_SERVER_ERROR, said)
            self._on_failed()
            try:
                self.outbox.results.abandon(self.problem)
            finally:
                self._changed.notify_all()

    def call_back(self) -> bool:
        """Call the callbacks of what is done; False: there were none."""
        some = False
        uncalled = self.accumulator.uncalled
        while True:
            with self._changed:
                if not uncalled:
                    return some
                batch = uncalled.popleft()
            some = True
            try:
                batch.announce()
            except KeyboardInterrupt:
                complain(
                    batch
                )  # only the main thread is interrupted; something asked this one to be
            finally:
                with self._changed:
                    self._called_back += 1
                    self._changed.notify_all()


def _serve(held: "weakref.ref[SenderThread]", wake_up: SocketWakeUp) -> None:
    """The thread. It holds no reference while it waits, so an unused producer can be collected."""
    ready: list[Ready] = []
    try:
        while True:
            thread = held()
            rest = None if thread is None else thread.turn(ready)
            del thread
            if rest is None:
                return
            ready = wake_up.wait(rest)
    finally:
        del held  # first: it would wake the sender
        wake_up.close()
