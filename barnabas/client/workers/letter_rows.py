"""Dead letters as rows, and what a redrive would send."""

from barnabas.client.tables import Row
from barnabas.client.workers.dead_letters import DeadLetters, Filter, Letter, Summary
from barnabas.model.times import iso_time


def summary_row(one: Summary) -> Row:
    trail = one.last.trail if one.last else None
    return {
        "topic": one.topic,
        "letters": one.letters,
        "redriven": one.redriven,
        "left": one.letters - one.redriven,
        "last_time": iso_time(one.last.time) if one.last else None,
        "last_cause": trail.cause if trail else None,
        "last_group": trail.group if trail else None,
    }


def letter_row(letter: Letter) -> Row:
    message, trail = letter.message, letter.trail
    return {
        "at": f"{message.partition}:{message.offset}",
        "partition": message.partition,
        "offset": message.offset,
        "time": iso_time(letter.time),
        "group": trail.group if trail else None,
        "origin": str(trail.origin) if trail else None,
        "origin_timestamp": trail.timestamp if trail else None,
        "attempts": trail.attempts if trail else None,
        "rounds": trail.round if trail else None,
        "cause": trail.cause if trail else None,
        "key": _text(message.key),
        "value": _text(message.value),
        "redriven": letter.redriven,
    }


async def redrive_plan(
    dead: DeadLetters, topic: str, wanted: Filter, to: str | None, limit: int | None
) -> dict[str, int]:
    """How many letters would be sent, were sent before, have nowhere to go, and have no record."""
    found = {"letters": 0, "before": 0, "no_origin": 0, "no_record": 0}
    async for letter in dead.letters(topic, wanted):
        if letter.redriven:
            found["before"] += 1
        elif letter.trail is None and to is None:
            found["no_origin"] += 1
        elif not letter.goes_back:
            found["no_record"] += 1
        else:
            found["letters"] += 1
    if limit is not None:
        found["letters"] = min(found["letters"], limit)
    return found


def _text(value: bytes | None) -> str | None:
    """Text for people and for JSON; `consume -J` writes the bytes unchanged."""
    return None if value is None else value.decode(errors="backslashreplace")
