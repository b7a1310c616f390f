"""Commits a round of a mirror: its records and its progress, all of them or none.

In: a target, the name of the mirror. Out: transactions for the tasks and for the progress, and one
decision about them.
Always: the progress is written in a transaction of the driver, whose id belongs to the mirror. To
begin a round is to initialise this id: that fences a mirror with the same name, and waits until its
last transaction is decided everywhere. So the progress that is read afterwards is complete, and no
other mirror can add to it until this round is committed.
On Barnabas tasks have transactions of their own, committed as a group with the driver's. On Apache
Kafka they share the driver's: each partition is written by one task, so the sequence numbers of one
producer suffice.
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import Fenced
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark import batch_transaction
from barnabas.pipeline.spark.batch_transaction import check_attempt
from barnabas.pipeline.spark.group_committer import GroupCommitter
from barnabas.pipeline.spark.sending import BatchSender
from barnabas.pipeline.spark.transaction_calls import GroupState, SinkTransaction, ended, has_groups

TIMEOUT_MS = 900_000
_DRIVER = 0  # tasks have the numbers from 1 on


class TaskTransaction(NamedTuple):
    """What a task needs to write in a transaction. `shared`: the driver's; else one of its own."""

    group: str
    number: int
    state: GroupState | None
    shared: SinkTransaction | None

    def join(self, target: ClusterClient, sender: BatchSender, attempt: int) -> None:
        if self.shared is not None:
            check_attempt(attempt)
            sender.share(self.shared)
            return
        state = self.state
        assert state is not None
        committer = GroupCommitter(target, self.group)
        sender.begin_with(lambda: committer.begin(state, self.number, attempt, TIMEOUT_MS))


class RoundCommits:
    """Of one mirror."""

    def __init__(self, target: ClusterClient, name: str) -> None:
        self._target = target
        self._group = f"mirror-{name}"
        self._committer = GroupCommitter(target, self._group)
        self._groups = has_groups(target)
        self._state: GroupState | None = None
        self._driver: SinkTransaction | None = None
        self._next: tuple[int, int] | None = None  # producer id and epoch if nobody else comes

    def begin(self) -> bool:
        """True if another mirror may have written progress since the last round."""
        if self._groups:
            self._state = self._state or self._committer.state()
            driver = self._committer.begin(self._state, _DRIVER, 0, TIMEOUT_MS)
        else:
            driver = batch_transaction.begin(
                self._target, self._group, TIMEOUT_MS, stores=False
            ).transaction
        changed = (driver.producer_id, driver.epoch) != self._next
        self._driver, self._next = driver, None
        return changed

    def task(self, number: int) -> TaskTransaction:
        """For the task with this number, from 0 on."""
        shared = None if self._groups else self._driver
        return TaskTransaction(self._group, number + 1, self._state, shared)

    def join(self, sender: BatchSender) -> None:
        """For the progress."""
        driver = self._driver
        assert driver is not None
        if self._groups:
            sender.begin_with(lambda: driver)
        else:
            sender.share(driver)

    def commit(self, reported: Iterable[SinkTransaction | None]) -> None:
        """After the progress is written."""
        driver = self._driver
        assert driver is not None
        self._driver = None
        if self._groups:
            named = [each for each in reported if each is not None]
            self._committer.commit([*named, driver], None)
            moved = 2  # by the commit, and by the next beginning
        else:
            try:
                ended(self._target, driver, commit=True)
            except Fenced as problem:
                raise PipelineError(
                    f"another mirror {self._group!r} has begun: this one stops, and nothing of its"
                    " round is visible. Run each mirror only once",
                    problem.code,
                ) from None
            moved = 1
        self._next = driver.producer_id, driver.epoch + moved
