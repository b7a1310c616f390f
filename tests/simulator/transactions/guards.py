"""Looks at the transactions of a broker after each of its turns.

In: live brokers. Out: nothing, or a Violation.
Always checked: a coordinator that answers has the transactions that its log has, also right after
it has read them back; the last stable offset of a leader is that of what is committed: never above
the high watermark nor above an open transaction, and it never goes back within an epoch.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from barnabas.broker.broker import Broker
from barnabas.broker.partition import Partition
from barnabas.coordinators.runtime import Stage
from barnabas.coordinators.transactions.records import decode
from barnabas.coordinators.transactions.shard import TransactionShard
from barnabas.coordinators.transactions.transaction import NO_EPOCH, Transaction
from barnabas.log.log import Log
from barnabas.model.ids import TopicPartition
from tests.simulator.transactions.history import History
from tests.simulator.truth import Committed, Keyed, Violation, records_kept, records_of

if TYPE_CHECKING:
    from tests.simulator.world import World

STATE_TOPIC = "__transaction_state"


class _Looked:
    """A shard, and what its log has for it up to an offset."""

    def __init__(self, shard: TransactionShard) -> None:
        self.shard = shard
        self.end = 0
        self.expected: dict[str, Transaction] = {}


class TransactionGuards:
    def __init__(self, world: "World", history: History) -> None:
        self._world = world
        self._history = history
        self._looked: dict[tuple[str, int], _Looked] = {}
        self._stable: dict[tuple[str, TopicPartition], tuple[Log, int, int]] = {}
        self._read_back: dict[tuple[str, TopicPartition], tuple[Log, int]] = {}

    def extended(self, at: TopicPartition, fresh: list[Keyed]) -> None:
        if at.topic != STATE_TOPIC:
            self._history.extended(at, fresh)

    # --- coordinators ---

    def look(self, who: str, broker: Broker) -> None:
        coordination = broker.transactions
        if coordination is None or coordination.led.topic is None:
            return
        for index, context in tuple(coordination.runtime._contexts.items()):
            if context.stage is not Stage.ACTIVE:
                continue
            shard = context.shard
            partition = coordination.led.topic.partitions[index]
            looked = self._looked.get((who, index))
            if looked is None or looked.shard is not shard:
                looked = self._looked[who, index] = _Looked(shard)
            if partition.is_open and looked.end != partition.log.end_offset:
                if partition.leader_epoch != shard.coordinator_epoch:
                    continue  # another broker leads it by now, or this one in a new epoch
                self._compare(who, partition, looked)

    def _compare(self, who: str, partition: Partition, looked: _Looked) -> None:
        """The ids that have changed since the last look."""
        log, first = partition.log, not looked.end
        changed: dict[str, None] = {}
        committed = self._world.committed(partition.name)
        for record in records_kept(committed, partition, looked.end):
            known = None if record.key is None else decode(record.key, record.value)
            if known is None:
                continue
            changed[known.transactional_id] = None
            if known.transaction is None:
                looked.expected.pop(known.transactional_id, None)
            else:
                looked.expected[known.transactional_id] = known.transaction
        looked.end = log.end_offset
        found = looked.shard.table.transactions
        for id_ in changed if not first else {**changed, **dict.fromkeys(found)}:
            here = found.get(id_)
            if here is not None:
                here = replace(here, last_epoch=NO_EPOCH)
            if here != looked.expected.get(id_):
                how = "read its transactions back" if first else "coordinates"
                self._world.fate.excuse(partition.name, partition.leader_epoch)
                raise Violation(
                    f"{partition.name}: {who} {how}, and transactional id {id_} is {here}, where"
                    f" the log has {looked.expected.get(id_)}"
                )

    # --- partitions ---

    def was_read_back(self, who: str, partition: Partition) -> None:
        """A log was opened, or cut: a snapshot says what is open in it, and not what has ended.

        Markers in it that are not committed hold nobody back, then. The coordinator has decided,
        so nothing that readers see can change."""
        self._read_back[who, partition.name] = partition.log, partition.log.end_offset

    def _ended_early(self, who: str, partition: Partition, start: int) -> dict[int, bool]:
        """By producer: what the first marker from `start` on says, in a log read back."""
        log = partition.log
        opened, end = self._read_back.get((who, partition.name), (log, 0))
        ended: dict[int, bool] = {}
        for record in records_of(log, start, end) if opened is log and start < end else ():
            if record.ends is not None:
                ended.setdefault(record.producer, record.ends)
        return ended

    def look_at_stability(self, who: str, partition: Partition, committed: Committed) -> None:
        log, name, epoch = partition.log, partition.name, partition.leader_epoch
        if name.topic == STATE_TOPIC:
            return
        stable, mark = log.last_stable_offset, log.high_watermark
        if stable > mark:
            raise Violation(
                f"{name}: the last stable offset of {who} is {stable}, its high watermark {mark}"
            )
        before = self._stable.get((who, name))
        self._stable[who, name] = log, epoch, stable
        if before is not None and before[:2] == (log, epoch) and stable < before[2]:
            raise Violation(
                f"{name}: the last stable offset of {who} went back from {before[2]} to {stable}"
                f" in epoch {epoch}"
            )
        stability = self._history.partitions.get(name)
        if stability is None:
            return
        ended = self._ended_early(who, partition, max(mark, committed.end))
        for producer, commit in ended.items():
            self._history.ends_soon(name, producer, commit)
        if mark != committed.end:
            return
        expected = stability.last_stable(mark)
        still_open = [each[0] for key, each in stability.open.items() if key not in ended]
        if not expected <= stable <= min([mark, *still_open]):
            raise Violation(
                f"{name}: the last stable offset of {who} is {stable}, with the high watermark"
                f" {mark}; {expected} is right"
            )
