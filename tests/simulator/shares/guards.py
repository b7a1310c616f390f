"""Looks at share partitions of leaders, and at share coordinators, after each turn of a broker.

In: live brokers. Out: nothing, or a Violation.
Always checked: a share coordinator that answers has the states that its log has; a leader that has
read a state has what was stored; from then on an offset has one owner, who has a session here; what
is finished stays finished, delivery counts do not fall, and the start offset rises over what is
stored as finished only; no more offsets are in flight than the group may lock.
Allowed: after a write without a certain outcome, a member whose session ended may hold records
until its locks end.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from barnabas.broker.broker import Broker
from barnabas.broker.partition import Partition
from barnabas.broker.share import coordination as coordination_module
from barnabas.broker.share.coordination import ShareCoordination
from barnabas.broker.share.fetching import ShareFetchWait
from barnabas.broker.share.partitions import FENCED, LoadedShare
from barnabas.broker.share.states import ShareStates
from barnabas.coordinators.runtime import Stage
from barnabas.coordinators.share.keys import StateKey
from barnabas.coordinators.share.records import decode
from barnabas.coordinators.share.runs import ACKNOWLEDGED, ACQUIRED, Run
from barnabas.coordinators.share.sessions import SessionKey
from barnabas.coordinators.share.share_partition import SharePartition
from barnabas.coordinators.share.state_batches import combine
from barnabas.coordinators.share.state_shard import ShareStateShard, StateLimits, StateWrite
from barnabas.coordinators.share.stored_state import StoredShareState
from tests.simulator.shares.ledger import ShareLedger
from tests.simulator.shares.stored import StoredShare, StoredShares, flat
from tests.simulator.truth import Excused, Violation, records_kept

if TYPE_CHECKING:
    from tests.simulator.machine import Machine
    from tests.simulator.world import World


class _Seen:
    """A share partition of a leader, as it was at the last look."""

    def __init__(self, share: LoadedShare, since_us: int) -> None:
        self.share = share
        self.since_us = since_us  # when it began to load
        self.start = -1
        self.runs: dict[int, tuple[bool, int]] = {}  # by offset: whether it is finished, attempts
        self.refused = False  # a write had no outcome, or a bad one


class _Looked:
    """A shard, and what its log has for it up to an offset."""

    def __init__(self, shard: ShareStateShard) -> None:
        self.shard = shard
        self.end = 0
        self.expected = StoredShares()


class ShareGuards:
    def __init__(self, world: "World", ledger: ShareLedger, prune_ms: int) -> None:
        self._world = world
        self._ledger = ledger
        self._prune_ms = prune_ms
        self._seen: dict[LoadedShare, _Seen] = {}
        self._changed: dict[LoadedShare, None] = {}  # since the last look
        self._looked: dict[tuple[str, int], _Looked] = {}

    # --- what leaders do ---

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Until the end of the block, leaders are seen when they load, deliver and write."""
        limits = partial(
            StateLimits,
            prune_interval_ms=self._prune_ms,
            cold_snapshot_interval_ms=self._prune_ms,
        )
        with ExitStack() as patches:
            for target, name, value in (
                (coordination_module, "StateLimits", limits),
                (LoadedShare, "load", self._watched_load(LoadedShare.load)),
                (LoadedShare, "carry_out", self._watched_change(LoadedShare.carry_out)),
                (ShareFetchWait, "_acquire_one", self._watched_acquire()),
                (ShareStates, "write", self._watched_write(ShareStates.write)),
                (ShareCoordination, "_prune", self._watched_prune(ShareCoordination._prune)),
            ):
                patches.enter_context(patch.object(target, name, value))
            yield

    def _watched_load(self, real: Any) -> Any:
        async def load(share: LoadedShare) -> None:
            self._ledger.loads(share.key, share.partition.name)
            self._seen[share] = _Seen(share, self._world.schedule.now_us)
            await real(share)
            self._changed[share] = None

        return load

    def _watched_change(self, real: Any) -> Any:
        def carry_out(share: LoadedShare, *arguments: Any) -> None:
            self._changed[share] = None
            real(share, *arguments)

        return carry_out

    def _watched_acquire(self) -> Any:
        real = ShareFetchWait._acquire_one

        def acquire_one(wait: Any, key: Any, share: LoadedShare, *rest: Any) -> Any:
            before = {} if share.machine is None else _unacquirable(share.machine)
            found = real(wait, key, share, *rest)
            self._changed[share] = None
            if found is not None and share.machine is not None:
                member = wait._asked.session.key.member
                self._report(self._check_acquired, share, member, before, found.ranges)
            return found

        return acquire_one

    def _watched_write(self, real: Any) -> Any:
        def write(states: Any, write: StateWrite, written: Any) -> None:
            self._ledger.writes(write)

            def answered(result: Any) -> None:
                self._world.transcript.counts["share writes fenced"] += result.code in FENCED
                share = states._broker.share.partitions.get(write.key)
                if share in self._seen:
                    self._changed[share] = None
                    self._seen[share].refused |= bool(result.code)
                written(result)

            real(states, write, answered)

        return write

    def _watched_prune(self, real: Any) -> Any:
        """What is committed is seen before it is deleted, which may be in the same turn."""

        def prune(coordination: Any) -> None:
            for machine in self._world.machines:
                if machine.broker is coordination._broker and coordination.led.topic is not None:
                    for partition in coordination.led.topic.partitions:
                        self._report(self._world.guards.look_at, machine, partition)
            real(coordination)

        return prune

    def _report(self, check: Any, *arguments: Any) -> None:
        """A Violation inside a broker would be an error of that broker."""
        try:
            check(*arguments)
        except (Violation, Excused) as problem:
            self._world.failed(problem)

    def _check_acquired(
        self, share: LoadedShare, member: str, before: dict[int, Run], ranges: Any
    ) -> None:
        machine = share.machine
        assert machine is not None
        who = _name(share)
        for first, last, _ in ranges:
            for offset in range(first, last + 1):
                if offset in before:
                    raise Violation(
                        f"{_about(share)}: {who} gives offset {offset} to {member}; it was"
                        f" {before[offset]}"
                    )
        self._ledger.acquired(
            share.key, machine.state_epoch, share.leader_epoch, who, member, ranges
        )

    # --- after a turn ---

    def look(self, who: str, broker: Broker) -> None:
        service = broker.share
        if service is None:
            return
        if self._changed:
            changed, self._changed = self._changed, {}
            for share in changed:
                self._look_at_leader(share, broker)
        self._look_at_coordinator(who, service.coordination)

    def forget(self, machine: "Machine") -> None:
        """It died."""
        for share in [each for each in self._seen if _name(each) == machine.name]:
            del self._seen[share]
        self._changed.clear()

    def _look_at_leader(self, share: LoadedShare, broker: Broker) -> None:
        seen, machine = self._seen.get(share), share.machine
        if share.dropped or broker.stopping.is_set():
            self._seen.pop(share, None)
            return
        if seen is None or machine is None:
            return
        stored = self._ledger.stored.all.get(share.key, StoredShare())
        if stored.state_epoch != machine.state_epoch:
            return  # it was altered, and this leader does not know it yet
        if seen.start < 0:
            self._check_loaded(seen, machine, stored)
        self._check_start(seen, machine, stored)
        _check_runs(share, seen, machine)
        if not seen.refused:
            _check_owners(share, machine)

    def _check_loaded(self, seen: _Seen, machine: SharePartition, stored: StoredShare) -> None:
        """What was stored before it began to read is known here."""
        share = seen.share
        seen.start = max(stored.start, 0)
        times = self._ledger.changed_us.get(share.key, {})
        here = {
            offset: run for run in machine.runs.all for offset in range(run.first, run.last + 1)
        }
        for offset, delivery in stored.offsets.items():
            if offset < machine.start or times[offset] >= seen.since_us:
                continue
            run = here.get(offset)
            if (
                run is None
                or run.attempts < delivery.attempts
                or (delivery.finished and not run.finished)
            ):
                raise Violation(
                    f"{_about(share)}: {_name(share)} leads in epoch {share.leader_epoch} with"
                    f" {run} for offset {offset}, where {delivery} is stored"
                )
        for offset, run in here.items():
            if run.finished and not stored.is_finished(offset):
                raise Violation(
                    f"{_about(share)}: {_name(share)} leads in epoch {share.leader_epoch} and takes"
                    f" offset {offset} for finished; stored is {stored.offsets.get(offset)}"
                )

    def _check_start(self, seen: _Seen, machine: SharePartition, stored: StoredShare) -> None:
        share = seen.share
        if machine.start < seen.start:
            raise Violation(
                f"{_about(share)}: the start offset of {_name(share)} went back from {seen.start}"
                f" to {machine.start}, in leader epoch {share.leader_epoch}"
            )
        first = max(seen.start, share.partition.log.start_offset, stored.start)
        for offset in range(first, machine.start) if stored.start >= 0 else ():
            if not stored.is_finished(offset):
                raise Violation(
                    f"{_about(share)}: {_name(share)} begins at {machine.start}, past offset"
                    f" {offset}; stored is {stored.offsets.get(offset)}"
                )
        seen.start = machine.start

    # --- coordinators ---

    def _look_at_coordinator(self, who: str, coordination: Any) -> None:
        if coordination.led.topic is None:
            return
        for index, context in tuple(coordination.runtime._contexts.items()):
            partition = coordination.led.topic.partitions[index]
            if context.stage is not Stage.ACTIVE or not partition.is_open:
                continue
            looked = self._looked.get((who, index))
            if looked is None or looked.shard is not context.shard:
                looked = self._looked[who, index] = _Looked(context.shard)
            alone = partition.leading is None
            if looked.end != partition.log.end_offset and (
                not alone or self._world.plan.brokers == 1
            ):
                self._compare(who, partition, looked)

    def _compare(self, who: str, partition: Partition, looked: _Looked) -> None:
        """The share partitions that have changed since the last look."""
        first = not looked.end
        changed: dict[StateKey, None] = {}
        committed = self._world.committed(partition.name)
        for record in records_kept(committed, partition, looked.end):
            known = None if record.key is None else decode(record.key, record.value)
            if known is not None:
                looked.expected.add(known)
                changed[known.key] = None
        looked.end = partition.log.end_offset
        found, expected = looked.shard.states, looked.expected.all
        for key in changed if not first else {**changed, **dict.fromkeys(found)}:
            here, right = _state(found.get(key)), _expected(expected.get(key))
            if here != right:
                how = "read its states back" if first else "coordinates"
                self._world.fate.excuse(partition.name, partition.leader_epoch)
                raise Violation(
                    f"{partition.name}: {who} {how}, and group {key.group}, partition"
                    f" {key.partition}, is {here}, where the log has {right}"
                )


def _unacquirable(machine: SharePartition) -> dict[int, Run]:
    """Copies of the runs that a fetch must not touch, by offset."""
    return {
        offset: run.tail(run.first)
        for run in machine.runs.all
        if run.state >= ACQUIRED or run.token
        for offset in range(run.first, run.last + 1)
    }


def _check_runs(share: LoadedShare, seen: _Seen, machine: SharePartition) -> None:
    """One state for each offset, and none that an offset cannot come to."""
    at, complete, now = machine.start, 0, {}
    limit = machine.options.delivery_limit
    for run in machine.runs.all:
        if run.first != at or run.last < run.first:
            raise Violation(f"{_about(share)}: {_name(share)} has {run} where {at} is next")
        at = run.last + 1
        complete += len(run) * (run.target >= ACKNOWLEDGED or run.state >= ACKNOWLEDGED)
        for offset in range(run.first, run.last + 1):
            finished, attempts = seen.runs.get(offset, (False, 0))
            if (finished and not run.finished) or run.attempts < attempts or run.attempts > limit:
                raise Violation(
                    f"{_about(share)}: {_name(share)} has {run}; offset {offset} was"
                    f" {'finished' if finished else 'not finished'} after {attempts} deliveries"
                )
            now[offset] = run.finished, 0 if run.finished else run.attempts
    seen.runs = now
    if machine.in_flight > machine.options.locks_max:
        raise Violation(f"{_about(share)}: {machine.in_flight} offsets are in flight")
    if complete != machine.complete:
        raise Violation(
            f"{_about(share)}: {_name(share)} counts {machine.complete} finished offsets of"
            f" {complete}: {machine.runs.all}"
        )


def _check_owners(share: LoadedShare, machine: SharePartition) -> None:
    sessions = share._service.sessions.sessions
    for run in machine.runs.all:
        held = run.state is ACQUIRED and not run.token
        if held and SessionKey(share.key.group, run.owner) not in sessions:
            raise Violation(
                f"{_about(share)}: {_name(share)} has {run}, and no session of this member"
            )


def _state(found: StoredShareState | None) -> Any:
    if found is None:
        return None
    batches = combine(found._batches, tuple(found._unmerged), found.start_offset)
    return found.state_epoch, found.leader_epoch, found.start_offset, dict(flat(batches))


def _expected(found: StoredShare | None) -> Any:
    if found is None:
        return None
    offsets = dict(sorted(found.offsets.items()))
    return found.state_epoch, found.leader_epoch, found.start, offsets


def _about(share: LoadedShare) -> str:
    return f"group {share.key.group}, {share.partition.name}"


def _name(share: LoadedShare) -> str:
    return f"b{share._service.broker.id}"
