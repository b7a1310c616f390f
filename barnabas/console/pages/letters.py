"""`/dlq` and `/dlq/T`: dead letters by cause; `/dlq/T/redrive`: preview, then send them back."""

import re
import shlex
from collections import Counter
from contextlib import aclosing
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from barnabas.client.tables import Row
from barnabas.client.words import count
from barnabas.client.workers.dead_letters import DeadLetters, Filter
from barnabas.client.workers.letter_rows import letter_row, redrive_plan, summary_row
from barnabas.console import words
from barnabas.console.application import Asked, see_other
from barnabas.console.changes import changed, check_allowed
from barnabas.console.pages.topics import found_topic
from barnabas.console.reading import reading_cluster
from barnabas.console.topic_names import DEAD_LETTER_NAME
from barnabas.console.view import View
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition

_PARTITIONS_MAX = (
    2_000  # the last record of each is read to know a dead-letter topic by its headers
)
_SHOWN = 100
_FRESH_MS = 5_000  # tabs that show the list share a look at it
_READ_MAX = 20_000
_NUMBERS = re.compile(r"\d+")
NUMBER = "#"
FIELDS = ("cause", "group", "origin")
PLACE = ("partition", "offset")  # of one letter


async def dead_letters(asked: Asked) -> View:
    state = asked.state
    view = await state.names()
    partitions = sum(len(topic.partitions) for topic in view.topics.values())
    rows: list[Row] = []

    async def look() -> list[Row]:
        with reading_cluster(asked.options.settings) as cluster:
            return [summary_row(one) for one in await DeadLetters(cluster).summaries()]

    if partitions <= _PARTITIONS_MAX:
        rows = await state.shared("dead letters", look, _FRESH_MS)
    else:
        for name, topic in sorted(view.topics.items()):
            if DEAD_LETTER_NAME.search(name):
                places = [TopicPartition(name, p.number) for p in topic.partitions]
                kept = sum(end - start for start, end in (await state.bounds(places)).values())
                unknown = dict.fromkeys(
                    ("redriven", "left", "last_time", "last_cause", "last_group")
                )
                rows.append({"topic": name, "letters": kept, **unknown})
    left = sum(row["left"] or 0 for row in rows)
    title = f"{count(left, 'dead letter')} to look at, in {count(len(rows), 'topic')}"
    if not rows:
        title = "No dead-letter topics"
    return View(
        "dlq",
        title,
        data={"rows": rows, "by_name": partitions > _PARTITIONS_MAX},
        rows=rows,
        columns=["topic", "letters", "redriven", "left", "last_time", "last_cause"],
        outline=[f"{row['topic']}:{row['letters']}:{row['redriven']}" for row in rows],
        command="dlq ls",
        good=not left,
    )


def _filter(fields: dict[str, str]) -> Filter:
    given = {name: fields[name] for name in FIELDS if fields.get(name)}
    partition, offset = (_number(fields, name) for name in PLACE)
    return Filter(
        partitions=() if partition is None else (partition,),
        offset=offset,
        **given,  # type: ignore[arg-type]
    )


def _number(fields: dict[str, str], name: str) -> int | None:
    given = fields.get(name, "")
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise InvalidRequest(Code.INVALID_REQUEST, f"{name}={given[:50]!r}: expected a number")
    return int(given)


def _options(topic: str, fields: dict[str, str]) -> str:
    parts = [shlex.quote(topic)]
    parts += [f"--{name} {shlex.quote(fields[name])}" for name in _given(fields)]
    return " ".join(parts)


async def letters_of(asked: Asked) -> View:
    """By cause, and the newest letters."""
    (name,) = asked.names
    await found_topic(asked, name)
    fields = {each: asked.query(each) for each in FIELDS}
    rows: list[Row] = []
    causes: Counter[str] = Counter()
    read = redriven = 0
    mask = asked.options.mask
    with reading_cluster(asked.options.settings) as cluster:
        async with aclosing(DeadLetters(cluster).letters(name, _filter(fields))) as found:
            async for letter in found:
                read += 1
                redriven += letter.redriven
                message = letter.message
                message.key, message.value = mask.key(message.key), mask.value(message.value)
                row = letter_row(letter)
                origin = None if letter.trail is None else letter.trail.origin
                row["origin_page"] = (
                    "" if origin is None
                    else words.path("topics", origin.topic, origin.partition, origin.offset)
                )  # fmt: skip
                kind = alike(row["cause"] or "written by another program")
                causes[kind] += not letter.redriven
                rows.append(row)
                del rows[: -_SHOWN * 2]
                if read >= _READ_MAX:
                    break
    rows = rows[::-1][:_SHOWN]
    title = f"{words.text(name, 249)}: {count(read - redriven, 'letter')} to look at"
    if redriven:
        title += f", {redriven} sent back"
    if read >= _READ_MAX:
        title += f" in the first {_READ_MAX:,}"
    return View(
        "letters",
        title,
        data={
            "name": name,
            "rows": rows,
            "causes": causes.most_common(50),
            "beginning": _beginning,
            "fields": fields,
            "query": urlencode({each: value for each, value in fields.items() if value}),
        },
        rows=rows,
        columns=["at", "time", "group", "origin", "attempts", "cause", "key", "value", "redriven"],
        command=f"dlq show {_options(name, fields)}",
        good=read == redriven,
    )


def alike(cause: str) -> str:
    """Causes that differ only in numbers are one kind."""
    return _NUMBERS.sub(NUMBER, cause)[:300]


def _beginning(kind: str) -> str:
    """What the causes of a kind have in common, to choose their letters by: up to a number."""
    return kind.partition(NUMBER)[0]


async def redrive(asked: Asked) -> View | Response:
    """GET: which letters would be sent. POST: sends them; no letter is sent twice."""
    (name,) = asked.names
    check_allowed(asked)
    await found_topic(asked, name)
    posted = asked.request.method == "POST"
    fields = asked.form if posted else {each: asked.query(each) for each in (*FIELDS, *PLACE)}
    wanted = _filter(fields)
    with reading_cluster(asked.options.settings) as cluster:
        dead = DeadLetters(cluster)
        if posted:
            sent = await dead.redrive(name, wanted)
            changed(asked, "redrive", topic=name, letters=sent, **_given(fields))
            kept = {each: value for each, value in _given(fields).items() if each in FIELDS}
            return see_other(f"{words.path('dlq', name)}?{urlencode(kept)}")
        plan = await redrive_plan(dead, name, wanted, None, None)
    many = plan["letters"]
    facts: dict[str, Any] = {
        "letters to send": f"{many:,}",
        "sent before": f"{plan['before']:,}",
        "without an original topic": f"{plan['no_origin']:,}",
        "without the record itself": f"{plan['no_record']:,}",
        **_given(fields),
    }
    return View(
        "confirm",
        f"Send {count(many, 'letter')} of {words.text(name, 249)} back to their original topics?",
        data={
            "facts": facts,
            "rows": [],
            "columns": [],
            "warning": "Their groups process them again. No letter is sent twice.",
            "fields": _given(fields),
            "action": words.path("dlq", name, "redrive"),
            "back": words.path("dlq", name),
            "button": f"Send {many:,} back",
            "danger": False,
            "type_name": "",
            "nothing": not many,
        },
        document={"topic": name, **plan},
        rows=[{"topic": name, **plan}],
        columns=["topic", "letters", "before", "no_origin", "no_record"],
        command=f"dlq redrive {_options(name, fields)}",
    )


def _given(fields: dict[str, str]) -> dict[str, str]:
    return {each: fields[each] for each in (*FIELDS, *PLACE) if fields.get(each)}
