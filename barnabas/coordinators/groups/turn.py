"""One turn of one member of a group of the new protocol: from what it says to what is written.

In: the group as the log has it, the member as it was and as it now describes itself, the topics.
Out: records, and facts for the answer, the timers and the story.
Always: changes nothing; everything it decides is in its records.
Not here: who may speak (consumer.py).
"""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from barnabas.coordinators.groups.consumer_member import ConsumerMember, Target, gone, target_record
from barnabas.coordinators.groups.consumer_records import (
    EPOCH_KEY,
    PARTITIONS_KEY,
    REGEX_KEY,
    TARGET_EPOCH_KEY,
    ConsumerRecord,
    EpochValue,
    RegexValue,
    TargetEpochValue,
)
from barnabas.coordinators.groups.consumer_state import ConsumerState
from barnabas.coordinators.groups.limits import Limits
from barnabas.coordinators.groups.patterns import Pattern
from barnabas.coordinators.groups.reconcile import Owned, reconciled
from barnabas.coordinators.groups.target import make_targets
from barnabas.coordinators.groups.topics import SubscribedIds, Topics, metadata_hash
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import KafkaError


class Turn:
    """`member` is as it will be; `replaced` the one whose place it takes, under another id."""

    def __init__(
        self,
        kept: ConsumerState,
        limits: Limits,
        topics: Topics,
        member: ConsumerMember,
        replaced: ConsumerMember | None = None,
        *,
        gathers: bool = False,
    ) -> None:
        self.records: list[ConsumerRecord] = []
        self.kept = kept
        self.is_new = member.id not in kept.members and replaced is None
        self.member = member
        self.replaced = replaced
        self.epoch = kept.epoch
        self.target_epoch = kept.target_epoch
        self.assignor = ""
        self.topics_changed = False
        self.resubscribed = False
        self.targets: dict[str, Target] | None = None
        self._gathers = gathers  # it is the first of a group that waits for more to come
        self._limits = limits
        self._topics = topics
        self._regexes = kept.regexes
        self._before: ConsumerMember | None = replaced or kept.members.get(member.id)
        if replaced is not None:
            self._take_place(replaced)
        self.began = self.member

    @property
    def bumped(self) -> bool:
        return self.epoch != self.kept.epoch

    def _take_place(self, old: ConsumerMember) -> None:
        """All that the old one had is the new one's; only the id is another."""
        self.member = replace(old, id=self.member.id, epoch=0, previous_epoch=0)
        self.records += gone(self.kept.id, old.id)
        self.records.append(self.member.wants(self.kept.id))
        self.records.append(target_record(self.kept.id, self.member.id, self.kept.target(old.id)))
        self.records.append(self.member.stands(self.kept.id))

    def describe(self, described: ConsumerMember, *, look_again: bool, now: Now) -> None:
        """What the member wants now. `look_again`: topics may have come, gone or grown."""
        before, self.member = self.member, described
        if described != before or self.is_new:
            self.records.append(described.wants(self.kept.id))
        regexes_changed = self._resolve(before.regex, described.regex, look_again, now)
        self.resubscribed = described.topics != before.topics or described.regex != before.regex
        bump = self.is_new or self.resubscribed or regexes_changed
        if not bump and not look_again:
            return
        leaving = () if self._before is None else (self._before,)
        names = self.kept.topics_without(leaving, described, self._regexes)
        digest = metadata_hash(names, self._topics)
        self.topics_changed = not bump and digest != self.kept.metadata_hash
        if bump or self.topics_changed:
            self.epoch += 2 if self._gathers else 1
            value = EpochValue(epoch=self.epoch, metadata_hash=digest)
            self.records.append(ConsumerRecord(EPOCH_KEY, self.kept.id, "", value))
        if self.kept.has_partitions_record:
            self.records.append(ConsumerRecord(PARTITIONS_KEY, self.kept.id, "", None))

    def _resolve(self, old: str, new: str, look_again: bool, now: Now) -> bool:
        """Which topics each pattern stands for; whether that is another set than before."""
        regexes = dict(self.kept.regexes)
        if old and old != new and self.kept.by_regex.get(old, 0) <= 1 and old in regexes:
            del regexes[old]
            self.records.append(ConsumerRecord(REGEX_KEY, self.kept.id, old, None))
        if new and new not in regexes:
            regexes[new] = self._look_up(new, Pattern(new).matching(self._topics.names()), now)
        changed = False
        if look_again:
            for regex, matched in tuple(regexes.items()):
                try:
                    found = Pattern(regex).matching(self._topics.names())
                except KafkaError:  # it was affordable once: what it stood for, it stands for
                    continue
                if found != matched:
                    changed = True
                    regexes[regex] = self._look_up(regex, found, now)
        self._regexes = regexes
        return changed

    def _look_up(self, regex: str, found: tuple[str, ...], now: Now) -> tuple[str, ...]:
        value = RegexValue(topics=list(found), version=0, timestamp=now.wall_ms)
        self.records.append(ConsumerRecord(REGEX_KEY, self.kept.id, regex, value))
        return found

    def retarget(self, now: Now, *, wait: bool) -> None:
        """New targets, unless there are some for this epoch, or it is too soon."""
        kept = self.kept
        self.target_epoch = kept.target_epoch
        if self._gathers:
            # An epoch of its own in which nobody has anything; the next one shares out.
            self.target_epoch = self.epoch - 1
            self.records.append(target_record(kept.id, self.member.id, {}))
            self._keep_target_epoch(now)
            return
        if kept.target_epoch >= self.epoch or wait:
            return
        default = self._limits.consumer_assignors[0]
        self.assignor = kept.assignor(self._before, self.member, default)
        if self.assignor not in self._limits.consumer_assignors:
            self.assignor = default
        self.targets = make_targets(self.assignor, self._subscriptions(), self._topics)
        self.target_epoch = self.epoch
        for member_id, target in self.targets.items():
            before = kept.targets.get(member_id)
            if member_id == self.member.id and self.replaced is not None:
                before = kept.target(self.replaced.id)
            if target != before:
                self.records.append(target_record(kept.id, member_id, target))
        self._keep_target_epoch(now)

    def _keep_target_epoch(self, now: Now) -> None:
        value = TargetEpochValue(
            assignment_epoch=self.target_epoch, assignment_timestamp=now.wall_ms
        )
        self.records.append(ConsumerRecord(TARGET_EPOCH_KEY, self.kept.id, "", value))

    def _subscriptions(self) -> Iterable[tuple[ConsumerMember, tuple[str, ...], Target]]:
        kept, seen = self.kept, False
        for member in kept.members.values():
            if self._before is not None and member.id == self._before.id:
                seen = True
                target = kept.target(member.id)
                member = self.member
            else:
                target = kept.target(member.id)
            yield member, kept.subscription(member, self._regexes), target
        if not seen:
            yield self.member, kept.subscription(self.member, self._regexes), {}

    def reconcile(self, owned: Owned | None) -> None:
        kept, member = self.kept, self.member
        if not self.resubscribed and member.has_reached(self.target_epoch):
            return
        source = member.id if self.replaced is None else self.replaced.id
        target = kept.target(source) if self.targets is None else self.targets[member.id]
        own = (None, member.id, source)
        owners = kept.owners

        def is_free(topic_id: UUID, partition: int) -> bool:
            return owners.get((topic_id, partition)) in own

        self.member = reconciled(
            member,
            target,
            self.target_epoch,
            subscribed=SubscribedIds(
                frozenset(kept.subscription(member, self._regexes)), self._topics
            ),
            resubscribed=self.resubscribed,
            is_free=is_free,
            owned=owned,
        )
        if self.member != member or self.is_new:
            self.records.append(self.member.stands(kept.id))


def wait_ms(kept: ConsumerState, limits: Limits, now: Now) -> int:
    """How long until targets may be made again. A clock that was turned back holds nobody up, nor
    does the past of an empty group."""
    if not kept.targeted_wall_ms or not kept.members:
        return 0
    elapsed_ms = now.wall_ms - kept.targeted_wall_ms
    left_ms = limits.consumer_assignment_interval_ms - elapsed_ms
    return left_ms if elapsed_ms >= 0 and left_ms > 0 else 0
