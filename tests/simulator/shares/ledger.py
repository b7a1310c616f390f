"""What members of share groups asked for and were told, compared with what is stored.

In: deliveries, acknowledgements and their results; writes of leaders; committed records of
__share_group_state. Out: nothing, or a Violation.
Always checked: an acknowledgement that was confirmed is stored; a record whose acceptance was
confirmed is not delivered again by a leader that may still write; what is stored was asked for by a
member, or is due to the delivery limit, and was written by the leader of that epoch; the stored
start offset never goes back, nor past a record that is not finished.
Allowed: a leader that has a successor may deliver what the successor had accepted, because
acquiring writes nothing; it cannot confirm anything any more. An operator who alters offsets begins
a new state epoch, in which everything may come again.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.topic import SHARE_STATE_TOPIC
from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.coordinators.share.keys import StateKey
from barnabas.coordinators.share.records import (
    ShareRecord,
    SnapshotRecord,
    StateTombstone,
    UpdateRecord,
    decode,
)
from barnabas.coordinators.share.state_batches import DeliveryState
from barnabas.coordinators.share.state_shard import StateWrite
from barnabas.model.ids import TopicPartition
from tests.simulator.shares.stored import Change, Delivery, StoredShare, StoredShares, flat
from tests.simulator.truth import Keyed, Violation

if TYPE_CHECKING:
    from barnabas.client.share.held_messages import AcknowledgeResult

FINAL = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)


class Confirmed(NamedTuple):
    """A member was told that a record is finished. Leaders of this epoch, and later ones, do not
    deliver it again."""

    member: str
    state_epoch: int
    leader_epoch: int


class Asked(NamedTuple):
    type: AcknowledgeType
    state_epoch: int


class ShareLedger:
    """Of one world. `now_us`: the time."""

    def __init__(self, delivery_limit: int, now_us: Callable[[], int]) -> None:
        self._delivery_limit = delivery_limit
        self._now_us = now_us
        self.stored = StoredShares()  # what is committed
        self.changed_us: dict[StateKey, dict[int, int]] = {}  # when an offset changed last
        self.keys: dict[tuple[str, TopicPartition], StateKey] = {}
        self._names: dict[StateKey, TopicPartition] = {}
        self._asked: dict[tuple[StateKey, int], set[Asked]] = {}
        self._confirmed: dict[tuple[StateKey, int], Confirmed] = {}
        self._written: dict[tuple[StateKey, int, int], set[Change]] = {}
        self.deliveries = 0
        self.redeliveries = 0

    # --- leaders ---

    def loads(self, key: StateKey, at: TopicPartition) -> None:
        """Somewhere a leader begins to read its state."""
        self.keys[key.group, at] = key
        self._names[key] = at

    def acquired(
        self,
        key: StateKey,
        state_epoch: int,
        leader_epoch: int,
        who: str,
        member: str,
        ranges: Iterable[tuple[int, int, int]],
    ) -> None:
        """A leader has given records to a member."""
        for first, last, count in ranges:
            self.deliveries += last - first + 1
            self.redeliveries += (last - first + 1) * (count > 1)
            if count > self._delivery_limit:
                raise Violation(
                    f"{self._about(key)}: offset {first} is delivered for the {count}th time by"
                    f" {who}; {self._delivery_limit} is the limit"
                )
            for offset in range(first, last + 1):
                told = self._confirmed.get((key, offset))
                if (
                    told is not None
                    and told.state_epoch == state_epoch
                    and leader_epoch >= told.leader_epoch
                ):
                    raise Violation(
                        f"{self._about(key)}: {who}, leader in epoch {leader_epoch}, delivers"
                        f" offset {offset} to {member}, though {told.member} was told that it is"
                        f" finished (leader epoch {told.leader_epoch})"
                    )

    def writes(self, write: StateWrite) -> None:
        """A leader asks the share coordinator to store something."""
        changes = self._written.setdefault(
            (write.key, write.state_epoch, write.leader_epoch), set()
        )
        changes.update(flat(write.batches))

    # --- members ---

    def asks(self, group: str, at: TopicPartition, offset: int, type_: AcknowledgeType) -> None:
        """A member will ask for this, with its next request."""
        key = self.keys[group, at]
        asked = self._asked.setdefault((key, offset), set())
        asked.add(Asked(type_, self._state_epoch(key)))

    def told(self, group: str, member: str, result: "AcknowledgeResult") -> None:
        """A member has the answer to an acknowledgement."""
        if result.error is not None:
            return
        key = self.keys[group, result.at]
        for first, last, type_ in result.runs:
            if type_ in FINAL:
                for offset in range(first, last + 1):
                    self._finished(key, offset, member, AcknowledgeType(type_))

    def _finished(self, key: StateKey, offset: int, member: str, type_: AcknowledgeType) -> None:
        stored = self.stored.all.get(key)
        state_epoch = self._state_epoch(key)
        asked = [each for each in self._asked.get((key, offset), ()) if each.type is type_]
        if not any(each.state_epoch == state_epoch for each in asked) or stored is None:
            return  # the offsets were altered meanwhile
        if offset >= stored.start and offset not in stored.ever_finished:
            raise Violation(
                f"{self._about(key)}: {member} was told that offset {offset} is finished; stored is"
                f" {stored.offsets.get(offset)}, from {stored.start} on"
            )
        self._confirmed[key, offset] = Confirmed(member, state_epoch, stored.leader_epoch)

    # --- the log ---

    def logged(self, at: TopicPartition, record: Keyed, who: str) -> None:
        """A record is committed."""
        if at.topic != SHARE_STATE_TOPIC or record.key is None:
            return
        known = decode(record.key, record.value)
        if known is None:
            return
        before = self.stored.all.get(known.key)
        if before is not None and not isinstance(known, StateTombstone):
            self._check_start(known, before, who)
        changed = self.stored.add(known)
        now = self.stored.all.get(known.key)
        if now is None:
            self.changed_us.pop(known.key, None)
            return
        times = self.changed_us.setdefault(known.key, {})
        for offset, _ in changed:
            times[offset] = self._now_us()
        # A write that changes nothing is one that was let in, too.
        written = flat(known.batches) if isinstance(known, UpdateRecord) else changed
        for offset, delivery in written:
            self._check_change(known, now, offset, delivery, who)

    def _check_start(
        self, record: SnapshotRecord | UpdateRecord, before: StoredShare, who: str
    ) -> None:
        if isinstance(record, SnapshotRecord):
            if record.state_epoch > before.state_epoch:
                return
            had = before.offsets.items()
            kept = dict(flat(record.batches))
            for offset, delivery in had:
                if offset >= record.start_offset and kept.get(offset, (-1, -1)) < delivery:
                    raise Violation(
                        f"{self._about(record.key)}: a snapshot of {who} has"
                        f" {kept.get(offset)} for offset {offset}, where {delivery} was stored"
                    )
        start = record.start_offset
        if start < 0 and isinstance(record, UpdateRecord):
            return
        if start < before.start:
            raise Violation(
                f"{self._about(record.key)}: the stored start offset went back from {before.start}"
                f" to {start} on {who}, in state epoch {before.state_epoch}"
            )
        for offset in range(before.start, start) if before.start >= 0 else ():
            if not before.is_finished(offset):
                raise Violation(
                    f"{self._about(record.key)}: {who} stored start offset {start}, past offset"
                    f" {offset}, which is {before.offsets.get(offset)}"
                )

    def _check_change(
        self, record: ShareRecord, now: StoredShare, offset: int, delivery: Delivery, who: str
    ) -> None:
        """A leader that may write has written it, and somebody asked for it."""
        key = record.key
        written = self._written.get((key, now.state_epoch, now.leader_epoch), ())
        if (offset, delivery) not in written:
            raise Violation(
                f"{self._about(key)}: {who} stored {delivery} for offset {offset}, which the leader"
                f" of epoch {now.leader_epoch} did not write in state epoch {now.state_epoch}"
            )
        asked = {each.type for each in self._asked.get((key, offset), ())}
        if delivery.state == DeliveryState.ACKNOWLEDGED:
            right = AcknowledgeType.ACCEPT in asked
        elif delivery.state == DeliveryState.ARCHIVED:
            limited = delivery.attempts >= self._delivery_limit
            right = limited or AcknowledgeType.REJECT in asked
        else:
            right = True
        if not right:
            raise Violation(
                f"{self._about(key)}: {who} stored {delivery} for offset {offset}, and members"
                f" asked for {sorted(each.name for each in asked)}"
            )

    # --- the end ---

    def unfinished(self, group: str, at: TopicPartition, end: int) -> Iterator[str]:
        """The records below `end` that the group is not done with."""
        key = self.keys.get((group, at))
        stored = None if key is None else self.stored.all.get(key)
        if stored is None:
            yield f"group {group} has no state of {at}"
            return
        for offset in range(stored.start, end):
            if not stored.is_finished(offset):
                yield (
                    f"group {group}: offset {offset} of {at} is {stored.offsets.get(offset)},"
                    f" stored from {stored.start} on; the log ends at {end}"
                )

    def _state_epoch(self, key: StateKey) -> int:
        found = self.stored.all.get(key)
        return -1 if found is None else found.state_epoch

    def _about(self, key: StateKey) -> str:
        at = self._names.get(key)
        return f"group {key.group}, {key[1:] if at is None else at}"
