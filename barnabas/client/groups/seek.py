"""Moves the offsets of a group that has no members, and takes it back.

Flows over `Net`, for `barnabas group seek` and for the console.
Always: the old offsets are saved before anything changes, as the committed offsets of a group named
GROUP.before-seek: in the cluster itself, so they outlive this machine, and any broker supports it.
`undo` swaps the two: a second undo repeats the seek. The offsets saved by the previous seek are
replaced only once the group has moved: until then the new ones are stored beside them, and the next
seek finishes one that was interrupted.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from barnabas.client.admin.admin import EARLIEST, LATEST, Admin
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.groups.targets import BEGUN_SUFFIX, UNDO_SUFFIX, Target
from barnabas.client.tables import Row
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition

NOTHING_COMMITTED = "barnabas: nothing was committed here"
COLUMNS = ("topic", "partition", "from", "to", "change", "note")


class Step(NamedTuple):
    """One partition: the group's committed offset, and the new one; None is no offset."""

    at: TopicPartition
    before: Committed | None
    after: Committed | None
    note: str = ""

    @property
    def moves(self) -> bool:
        before = None if self.before is None else self.before.offset
        return before != (None if self.after is None else self.after.offset)


async def committed_offsets(
    admin: Admin, group: str, *, may_be_new: bool
) -> dict[TopicPartition, Committed]:
    """Refuses a group with members, which would overwrite the offsets; brokers refuse it too."""
    try:
        described = await admin.describe_group(group)
    except InvalidRequest as problem:
        if problem.code is Code.GROUP_ID_NOT_FOUND and may_be_new:
            return {}
        raise
    if described.members or described.state not in ("Empty", "Dead"):
        many = f"{len(described.members)} member{'' if len(described.members) == 1 else 's'}"
        raise InvalidRequest(
            Code.NON_EMPTY_GROUP,
            f"group {group!r} is {described.state} with {many}: stop them first, they would"
            " continue from their own positions",
        )
    return await admin.group_offsets(group)


async def planned_steps(
    admin: Admin,
    committed: Mapping[TopicPartition, Committed],
    partitions: list[TopicPartition],
    target: Target,
) -> list[Step]:
    partitions = sorted(partitions)
    starts = await admin.offsets(dict.fromkeys(partitions, EARLIEST))
    ends = await admin.offsets(dict.fromkeys(partitions, LATEST))
    at_time = {}
    if target.time_ms is not None:
        at_time = await admin.offsets(dict.fromkeys(partitions, target.time_ms))
    steps = []
    for at in partitions:
        start, end = starts[at].offset, ends[at].offset
        note = ""
        if target.name == "earliest":
            place = start
        elif target.name == "latest":
            place = end
        elif target.time_ms is not None:
            place = at_time[at].offset
            if place < 0:
                place, note = end, "no record is that late"
        elif target.places is not None:
            if at not in target.places:
                continue
            place = target.places[at]
        else:
            assert target.offset is not None
            place = target.offset
        if place < start:
            note = f"{place} is gone: the first record is {start}"
        elif place > end:
            note = f"{place} is not there yet: the end is {end}"
        after = Committed(min(max(place, start), end))
        steps.append(Step(at, committed.get(at), after, note))
    return steps


async def undo_steps(admin: Admin, group: str) -> list[Step]:
    """What `undo` would change; RESOURCE_NOT_FOUND if there was no seek."""
    kept = await interrupted(admin, group) or await admin.group_offsets(group + UNDO_SUFFIX)
    if not kept:
        raise InvalidRequest(
            Code.RESOURCE_NOT_FOUND, f"group {group!r} has no seek that could be undone"
        )
    committed = await committed_offsets(admin, group, may_be_new=True)
    return [
        Step(at, committed.get(at), None if place.metadata == NOTHING_COMMITTED else place)
        for at, place in sorted(kept.items())
    ]


def step_row(step: Step) -> Row:
    before = None if step.before is None else step.before.offset
    after = None if step.after is None else step.after.offset
    return {
        "topic": step.at.topic,
        "partition": step.at.partition,
        "from": before,
        "to": after,
        "change": None if before is None or after is None else after - before,
        "note": step.note,
    }


async def move(admin: Admin, group: str, steps: list[Step]) -> int:
    """Carry out the steps that still change something; returns how many partitions moved."""
    # Since the preview, members may have joined, committed and left.
    committed = await committed_offsets(admin, group, may_be_new=True)
    moving = [
        step for step in (s._replace(before=committed.get(s.at)) for s in steps) if step.moves
    ]
    if not moving:
        return 0
    await settle(admin, group)
    await admin.alter_group_offsets(
        group + BEGUN_SUFFIX,
        {step.at: step.before or Committed(0, metadata=NOTHING_COMMITTED) for step in moving},
    )
    try:
        if placed := {step.at: step.after for step in moving if step.after is not None}:
            await admin.alter_group_offsets(group, placed)
        if nowhere := [step.at for step in moving if step.after is None]:
            await admin.delete_group_offsets(group, nowhere)
    except InvalidRequest:
        with suppress(KafkaError):  # the next seek finishes it
            await settle(admin, group)
        raise
    await settle(admin, group)
    return len(moving)


async def settle(admin: Admin, group: str) -> None:
    """Finishes an interrupted seek: its saved offsets become those of `undo`, if the group has
    moved.
    """
    if kept := await interrupted(admin, group):
        await delete_if_there(admin, group + UNDO_SUFFIX)
        await admin.alter_group_offsets(group + UNDO_SUFFIX, kept)
    await delete_if_there(admin, group + BEGUN_SUFFIX)


async def interrupted(admin: Admin, group: str) -> dict[TopicPartition, Committed]:
    """The offsets saved by a seek that has moved the group and may have been interrupted."""
    begun = await admin.group_offsets(group + BEGUN_SUFFIX)
    if not begun:
        return {}
    committed = await admin.group_offsets(group)
    was = {
        at: None if place.metadata == NOTHING_COMMITTED else place for at, place in begun.items()
    }
    moved = any(Step(at, committed.get(at), place).moves for at, place in was.items())
    return begun if moved else {}


async def delete_if_there(admin: Admin, group: str) -> None:
    try:
        await admin.delete_group(group)
    except KafkaError as problem:
        if problem.code is not Code.GROUP_ID_NOT_FOUND:
            raise
