"""What a group may never do: lose a commit, give one partition to two, go back unasked."""

from collections import defaultdict
from collections.abc import Mapping

from barnabas.coordinators.groups.records import OffsetRecord, decode
from barnabas.model.ids import TopicPartition
from tests.simulator.truth import Violation


class Groups:
    """All groups of a world, as their members and the log of their offsets see them."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, TopicPartition, int], str] = {}
        self._logged: dict[tuple[str, TopicPartition], int] = {}
        self._acked: dict[tuple[str, TopicPartition], int] = {}
        self.read: dict[tuple[str, TopicPartition], set[int]] = defaultdict(set)
        self.holding: dict[tuple[str, TopicPartition], dict[str, None]] = defaultdict(dict)

    def assigned(
        self, group: str, at: TopicPartition, generation: int, member: str, classic: bool
    ) -> None:
        self.holding[group, at][member] = None
        if not classic:
            return
        owner = self._owners.setdefault((group, at, generation), member)
        if owner != member:
            raise Violation(
                f"group {group}: {at} belongs to {owner} and to {member} in generation {generation}"
            )

    def revoked(self, group: str, at: TopicPartition, member: str) -> None:
        self.holding[group, at].pop(member, None)

    def begins(self, group: str, at: TopicPartition, offset: int, member: str) -> None:
        """A member that was given a partition reads on from what was committed."""
        known = self._acked.get((group, at), 0)
        if offset < known:
            raise Violation(
                f"group {group}: {member} begins {at} at offset {offset}, though {known} was"
                " committed and acknowledged"
            )

    def committed(self, group: str, member: str, places: Mapping[TopicPartition, int]) -> None:
        """Acknowledged to a member."""
        for at, offset in places.items():
            if offset >= 0:
                self._acked[group, at] = max(offset, self._acked.get((group, at), 0))

    def was_read(self, group: str, at: TopicPartition, offset: int) -> None:
        self.read[group, at].add(offset)

    def logged(self, key: bytes | None, value: bytes | None, who: str) -> None:
        """A record of __consumer_offsets is committed."""
        if key is None:
            return
        record = decode(key, value)
        if not isinstance(record, OffsetRecord) or record.value is None:
            return
        at = TopicPartition(record.topic, record.partition)
        before = self._logged.get((record.group, at), 0)
        if record.value.offset < before:
            raise Violation(
                f"group {record.group}: the committed offset of {at} went back from {before} to"
                f" {record.value.offset}, on {who}"
            )
        self._logged[record.group, at] = record.value.offset
