"""`/topics/T/produce`: send records with a form, from an existing record, or by a template."""

import re
import time
import uuid

from starlette.responses import Response

from barnabas.client.aio.producer import Producer
from barnabas.client.words import count
from barnabas.console import words
from barnabas.console.application import Asked, see_other
from barnabas.console.changes import changed, check_allowed
from barnabas.console.pages.topics import found_topic
from barnabas.console.reading import one_record
from barnabas.console.view import View
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition

COUNT_MAX = 1_000
_PLACE = re.compile(r"(\d{1,9}):(\d{1,18})")


async def produce(asked: Asked) -> View | Response:
    (name,) = asked.names
    topic = await found_topic(asked, name)
    if asked.request.method == "POST":
        check_allowed(asked)
        return await _send(asked, name, len(topic.partitions))
    filled = {"key": "", "value": "", "headers": "", "partition": "", "count": "1"}
    place = _PLACE.fullmatch(asked.query("from"))
    if place and not asked.options.mask:  # what is masked would be sent as ***
        at = TopicPartition(name, int(place[1]))
        message = await one_record(asked.state.cluster, at, int(place[2]))
        if message is not None:
            filled["key"] = (message.key or b"").decode(errors="backslashreplace")
            filled["value"] = (message.value or b"").decode(errors="backslashreplace")
            filled["headers"] = "\n".join(
                f"{key}: {(value or b'').decode(errors='backslashreplace')}"
                for key, value in message.headers
            )
    return View(
        "produce",
        f"Send records to {words.text(name, 249)}",
        data={"name": name, "filled": filled, "sent": asked.query("sent")[:200]},
        command=f"produce {name}",
    )


async def _send(asked: Asked, name: str, partitions: int) -> Response:
    form = asked.form
    many = form.get("count") or "1"
    if not (many.isascii() and many.isdigit() and len(many) < 5 and 1 <= int(many) <= COUNT_MAX):
        raise InvalidRequest(
            Code.INVALID_REQUEST, f"count {many[:20]!r}: expected 1 to {COUNT_MAX}"
        )
    partition = form.get("partition", "")
    number: int | None = None
    if partition:
        if not (partition.isascii() and partition.isdigit() and int(partition) < partitions):
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"partition {partition[:20]!r}: topic {name!r} has {partitions}",
            )
        number = int(partition)
    headers = _headers(form.get("headers", ""))
    no_key = bool(form.get("null_key")) and not form.get("key")  # a key that was typed is meant
    if form.get("null_value") and form.get("value"):
        raise InvalidRequest(
            Code.INVALID_REQUEST, "nothing was sent: a record has a value, or it is null"
        )
    last = None
    async with Producer({**asked.options.settings, "acks": "all"}) as producer:
        for at in range(int(many)):
            key = None if no_key else filled_in(form.get("key", ""), at)
            value = None if form.get("null_value") else filled_in(form.get("value", ""), at)
            last = await producer.send(
                name,
                None if value is None else value.encode(),
                key=None if key is None else key.encode(),
                headers=headers,
                partition=number,
            )
    changed(asked, "produce", topic=name, records=int(many))
    assert last is not None
    said = f"{count(int(many), 'record')} sent, the last at {last.partition}:{last.offset}"
    from urllib.parse import urlencode

    return see_other(f"{words.path('topics', name, 'produce')}?{urlencode({'sent': said})}")


def filled_in(template: str, number: int) -> str:
    """${i}: the number of the record, ${now}: milliseconds since 1970, ${uuid}."""
    if "${" not in template:
        return template
    text = template.replace("${i}", str(number)).replace("${now}", str(int(time.time() * 1000)))
    return text.replace("${uuid}", str(uuid.uuid4()))


def _headers(text: str) -> list[tuple[str, bytes]]:
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        key, colon, value = line.partition(":")
        if not colon or not key.strip():
            raise InvalidRequest(Code.INVALID_REQUEST, f"header {line[:50]!r}: use NAME: VALUE")
        found.append((key.strip(), value.strip().encode()))
    return found
