"""Computes one step of one member of a consumer group: from its heartbeat to the records.

In: the group as the log has it, the member before and as it describes itself now, the topics.
Out: records, and facts for the response, the timers and the history.
Always: changes nothing but itself; everything it decides is in its records.
Not here: whether the member may send the heartbeat (heartbeats.py).
"""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from barnabas.coordinators.caller import MayDescribe
from barnabas.coordinators.groups.consumer.member import (
    ConsumerMember,
    Target,
    removal_records,
    target_record,
)
from barnabas.coordinators.groups.consumer.patterns import Pattern
from barnabas.coordinators.groups.consumer.reconcile import Owned, reconciled
from barnabas.coordinators.groups.consumer.records import (
    EPOCH_KEY,
    PARTITIONS_KEY,
    REGEX_KEY,
    TARGET_EPOCH_KEY,
    ConsumerRecord,
    EpochValue,
    RegexValue,
    TargetEpochValue,
)
from barnabas.coordinators.groups.consumer.stored import StoredConsumerGroup
from barnabas.coordinators.groups.consumer.target import make_targets
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.topics import SubscribedIds, TopicsPort, metadata_hash
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import KafkaError


class HeartbeatStep:
    """`member`: as it will be. `replaced`: the member of its instance id that it replaces."""

    def __init__(
        self,
        stored: StoredConsumerGroup,
        limits: GroupLimits,
        topics: TopicsPort,
        member: ConsumerMember,
        replaced: ConsumerMember | None = None,
        *,
        gathers: bool = False,
    ) -> None:
        self.records: list[ConsumerRecord] = []
        self.stored = stored
        self.is_new = member.id not in stored.members and replaced is None
        self.member = member
        self.replaced = replaced
        self.epoch = stored.epoch
        self.target_epoch = stored.target_epoch
        self.assignor = ""
        self.topics_changed = False
        self.resubscribed = False
        self.targets: dict[str, Target] | None = None
        self._gathers = gathers  # it is the first member of a group that waits for more
        self._limits = limits
        self._topics = topics
        self._regexes = stored.regexes
        self._may_describe: MayDescribe | None = None
        self._before: ConsumerMember | None = replaced or stored.members.get(member.id)
        if replaced is not None:
            self._replace(replaced)
        self.began = self.member

    @property
    def bumped(self) -> bool:
        return self.epoch != self.stored.epoch

    def _replace(self, old: ConsumerMember) -> None:
        """The new member gets everything of the old one, under its own id."""
        self.member = replace(old, id=self.member.id, epoch=0, previous_epoch=0)
        self.records += removal_records(self.stored.id, old.id)
        self.records.append(self.member.metadata_record(self.stored.id))
        self.records.append(
            target_record(self.stored.id, self.member.id, self.stored.target(old.id))
        )
        self.records.append(self.member.assignment_record(self.stored.id))

    def describe(
        self,
        described: ConsumerMember,
        *,
        look_again: bool,
        now: Now,
        may_describe: MayDescribe | None = None,
    ) -> None:
        """The member describes itself. `look_again`: topics may have been created or changed.
        Patterns match only topics that the client `may_describe`."""
        self._may_describe = may_describe
        before, self.member = self.member, described
        if described != before or self.is_new:
            self.records.append(described.metadata_record(self.stored.id))
        regexes_changed = self._resolve(before.regex, described.regex, look_again, now)
        self.resubscribed = described.topics != before.topics or described.regex != before.regex
        bump = self.is_new or self.resubscribed or regexes_changed
        if not bump and not look_again:
            return
        leaving = () if self._before is None else (self._before,)
        names = self.stored.topics_without(leaving, described, self._regexes)
        digest = metadata_hash(names, self._topics)
        self.topics_changed = not bump and digest != self.stored.metadata_hash
        if bump or self.topics_changed:
            self.epoch += 2 if self._gathers else 1
            value = EpochValue(epoch=self.epoch, metadata_hash=digest)
            self.records.append(ConsumerRecord(EPOCH_KEY, self.stored.id, "", value))
        if self.stored.has_partitions_record:
            self.records.append(ConsumerRecord(PARTITIONS_KEY, self.stored.id, "", None))

    def _resolve(self, old: str, new: str, look_again: bool, now: Now) -> bool:
        """Match patterns with the topics; do they match others than before?"""
        regexes = dict(self.stored.regexes)
        if old and old != new and self.stored.by_regex.get(old, 0) <= 1 and old in regexes:
            del regexes[old]
            self.records.append(ConsumerRecord(REGEX_KEY, self.stored.id, old, None))
        if new and new not in regexes:
            regexes[new] = self._resolved(new, Pattern(new).matching(self._names()), now)
        changed = False
        if look_again:
            for regex, matched in tuple(regexes.items()):
                try:
                    found = Pattern(regex).matching(self._names())
                except KafkaError:  # too expensive now: it keeps the topics it matched
                    continue
                if found != matched:
                    changed = True
                    regexes[regex] = self._resolved(regex, found, now)
        self._regexes = regexes
        return changed

    def _names(self) -> Iterable[str]:
        names = self._topics.names()
        return names if self._may_describe is None else filter(self._may_describe, names)

    def _resolved(self, regex: str, found: tuple[str, ...], now: Now) -> tuple[str, ...]:
        value = RegexValue(topics=list(found), version=0, timestamp=now.wall_ms)
        self.records.append(ConsumerRecord(REGEX_KEY, self.stored.id, regex, value))
        return found

    def retarget(self, now: Now, *, wait: bool) -> None:
        """A new target, unless there is one for this epoch or it is too soon (`wait`)."""
        stored = self.stored
        self.target_epoch = stored.target_epoch
        if self._gathers:
            # One epoch in which no member has partitions; the next one assigns them.
            self.target_epoch = self.epoch - 1
            self.records.append(target_record(stored.id, self.member.id, {}))
            self._store_target_epoch(now)
            return
        if stored.target_epoch >= self.epoch or wait:
            return
        default = self._limits.consumer_assignors[0]
        self.assignor = stored.assignor(self._before, self.member, default)
        if self.assignor not in self._limits.consumer_assignors:
            self.assignor = default
        self.targets = make_targets(self.assignor, self._subscriptions(), self._topics)
        self.target_epoch = self.epoch
        for member_id, target in self.targets.items():
            before = stored.targets.get(member_id)
            if member_id == self.member.id and self.replaced is not None:
                before = stored.target(self.replaced.id)
            if target != before:
                self.records.append(target_record(stored.id, member_id, target))
        self._store_target_epoch(now)

    def _store_target_epoch(self, now: Now) -> None:
        value = TargetEpochValue(
            assignment_epoch=self.target_epoch, assignment_timestamp=now.wall_ms
        )
        self.records.append(ConsumerRecord(TARGET_EPOCH_KEY, self.stored.id, "", value))

    def _subscriptions(self) -> Iterable[tuple[ConsumerMember, tuple[str, ...], Target]]:
        stored, seen = self.stored, False
        for member in stored.members.values():
            if self._before is not None and member.id == self._before.id:
                seen = True
                target = stored.target(member.id)
                member = self.member
            else:
                target = stored.target(member.id)
            yield member, stored.subscription(member, self._regexes), target
        if not seen:
            yield self.member, stored.subscription(self.member, self._regexes), {}

    def reconcile(self, owned: Owned | None) -> None:
        stored, member = self.stored, self.member
        if not self.resubscribed and member.has_reached(self.target_epoch):
            return
        source = member.id if self.replaced is None else self.replaced.id
        target = stored.target(source) if self.targets is None else self.targets[member.id]
        own = (None, member.id, source)
        owners = stored.owners

        def is_free(topic_id: UUID, partition: int) -> bool:
            return owners.get((topic_id, partition)) in own

        self.member = reconciled(
            member,
            target,
            self.target_epoch,
            subscribed=SubscribedIds(
                frozenset(stored.subscription(member, self._regexes)), self._topics
            ),
            resubscribed=self.resubscribed,
            is_free=is_free,
            owned=owned,
        )
        if self.member != member or self.is_new:
            self.records.append(self.member.assignment_record(stored.id))


def wait_ms(stored: StoredConsumerGroup, limits: GroupLimits, now: Now) -> int:
    """How long until the next target may be computed. A clock that was set back does not delay it,
    nor do earlier targets of an empty group."""
    if not stored.targeted_wall_ms or not stored.members:
        return 0
    elapsed_ms = now.wall_ms - stored.targeted_wall_ms
    left_ms = limits.consumer_assignment_interval_ms - elapsed_ms
    return left_ms if elapsed_ms >= 0 and left_ms > 0 else 0
