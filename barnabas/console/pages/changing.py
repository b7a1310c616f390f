"""Pages that change something: seek, undo, delete. Each shows first what it takes away."""

import shlex

from starlette.responses import Response

from barnabas.client.groups.seek import (
    COLUMNS,
    Step,
    committed_offsets,
    move,
    planned_steps,
    step_row,
    undo_steps,
)
from barnabas.client.groups.targets import Target, parse_place
from barnabas.client.words import count
from barnabas.console import words
from barnabas.console.application import Asked, see_other
from barnabas.console.changes import changed, check_allowed
from barnabas.console.pages.topics import found_topic
from barnabas.console.view import View
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.model.times import parse_time


def _target(text: str) -> Target:
    place = parse_place(text)
    return Target(time_ms=parse_time(text)) if place is None else place


async def _steps(asked: Asked, group: str, to: str, topic: str) -> list[Step]:
    admin = asked.state.admin
    committed = await committed_offsets(admin, group, may_be_new=bool(topic))
    partitions = list(committed)
    if topic:
        found = await found_topic(asked, topic)
        partitions = [TopicPartition(topic, p.number) for p in found.partitions]
    if not partitions:
        raise InvalidRequest(
            Code.RESOURCE_NOT_FOUND, f"group {group!r} has committed nothing: name a topic"
        )
    return await planned_steps(admin, committed, partitions, _target(to))


async def seek(asked: Asked) -> View | Response:
    (group,) = asked.names
    check_allowed(asked)
    posted = asked.request.method == "POST"
    fields = asked.form if posted else dict(asked.request.query_params)
    to, topic = fields.get("to", ""), fields.get("topic", "")
    if not to:
        return View("seek", f"Set the offsets of {words.text(group, 249)}", data={"group": group})
    steps = await _steps(asked, group, to, topic)
    if posted:
        moved = await move(asked.state.admin, group, steps)
        changed(asked, "seek", group=group, to=to, partitions=moved)
        return see_other(words.path("groups", group))
    option = f" -t {shlex.quote(topic)}" if topic else ""
    return _preview(
        group, steps, f"Move {words.text(group, 249)} to {words.text(to, 60)}?",
        words.path("groups", group, "seek"), {"to": to, "topic": topic},
        f"group seek {shlex.quote(group)} --to {shlex.quote(to)}{option}",
    )  # fmt: skip


async def undo(asked: Asked) -> View | Response:
    (group,) = asked.names
    check_allowed(asked)
    steps = await undo_steps(asked.state.admin, group)
    if asked.request.method == "POST":
        moved = await move(asked.state.admin, group, steps)
        changed(asked, "undo", group=group, partitions=moved)
        return see_other(words.path("groups", group))
    return _preview(
        group, steps, f"Move {words.text(group, 249)} back?",
        words.path("groups", group, "undo"), {}, f"group undo {shlex.quote(group)}",
    )  # fmt: skip


def _preview(
    group: str, steps: list[Step], title: str, action: str, fields: dict[str, str], command: str
) -> View:
    rows = [step_row(step) for step in steps]
    many = sum(step.moves for step in steps)
    return View(
        "confirm",
        title,
        data={
            "facts": {"partitions that change": many},
            "rows": rows,
            "columns": COLUMNS,
            "warning": "The offsets of now are kept: undo restores them.",
            "fields": fields,
            "action": action,
            "back": words.path("groups", group),
            "button": f"Move {count(many, 'partition')}",
            "danger": False,
            "type_name": "",
            "nothing": not many,
        },
        rows=rows,
        columns=COLUMNS,
        command=command,
    )


async def delete_topic(asked: Asked) -> View | Response:
    (name,) = asked.names
    check_allowed(asked)
    topic = await found_topic(asked, name)
    if asked.request.method == "POST":
        if asked.form.get("name") != name:
            raise InvalidRequest(
                Code.INVALID_REQUEST, f"nothing was deleted: type {name!r} to confirm"
            )
        await asked.state.admin.delete_topic(name)
        await asked.state.names(fresh=True)
        changed(asked, "delete topic", topic=name)
        return see_other("/topics")
    places = [TopicPartition(name, p.number) for p in topic.partitions]
    bounds = await asked.state.bounds(places)
    kept = sum(end - start for start, end in bounds.values())
    return View(
        "confirm",
        f"Delete topic {words.text(name, 249)} with all its records, for good?",
        data={
            "facts": {"records": f"{kept:,}", "partitions": len(places)},
            "rows": [],
            "columns": [],
            "warning": "This cannot be undone.",
            "fields": {},
            "action": words.path("topics", name, "delete"),
            "back": words.path("topics", name),
            "button": "Delete the topic",
            "danger": True,
            "type_name": name,
            "nothing": False,
        },
        document={"topic": name, "records": kept},
        command=f"topic delete {shlex.quote(name)}",
    )
