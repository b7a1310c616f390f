"""`/topics/T/P/O`: one record: its bytes, its headers, its batch, and who has passed it."""

import json
import shlex
from typing import Any

from starlette.responses import Response

from barnabas.client.consumer.json_lines import to_json
from barnabas.client.consumer.message import RawMessage
from barnabas.client.workers.dead_letter_headers import headers_of, trail_in
from barnabas.console import words
from barnabas.console.application import Asked
from barnabas.console.pages.topics import found_topic
from barnabas.console.reading import one_record
from barnabas.console.topic_names import LETTER_ENDINGS
from barnabas.console.values import framed, shown_values
from barnabas.console.view import View
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL
from barnabas.wire.compression import Codec

SHOWN_MAX = 64 << 10
FORMS = {"json": "JSON", "text": "Text", "hex": "Hex"}


async def _found(asked: Asked) -> tuple[TopicPartition, RawMessage]:
    name, partition, offset = asked.names
    topic = await found_topic(asked, name)
    if not (_is_number(partition) and _is_number(offset)):
        raise InvalidRequest(
            Code.RESOURCE_NOT_FOUND, f"{partition[:20]}/{offset[:20]} is no partition and offset"
        )
    if int(partition) >= len(topic.partitions):
        raise InvalidRequest(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {name!r} has no partition {partition}: it has {len(topic.partitions)}",
        )
    at = TopicPartition(name, int(partition))
    start, end = (await asked.state.bounds([at])).get(at, (0, 0))
    if not start <= int(offset) < end:
        raise InvalidRequest(
            Code.OFFSET_OUT_OF_RANGE, f"{at} has the offsets {start} to {end - 1}, not {offset}"
        )
    _, readable = (await asked.state.readable([at])).get(at, (0, 0))
    if int(offset) >= readable:
        raise InvalidRequest(
            Code.RESOURCE_NOT_FOUND,
            f"{at} has records of open transactions from {readable} on, which are not read before"
            " the transactions end",
        )
    message = await one_record(asked.state.cluster, at, int(offset))
    if message is None:
        raise InvalidRequest(
            Code.RESOURCE_NOT_FOUND,
            f"{at} has no record at {offset}: it was compacted away, or ends a transaction",
        )
    return at, message


async def record(asked: Asked) -> View:
    at, message = await _found(asked)
    batch = message.batch
    passed = await _passed(asked, at, message.offset)
    trail = trail_in(headers_of(message))
    size = len(message.value or b"") + len(message.key or b"")
    name = f"{words.text(at.topic, 249)}:{at.partition}:{message.offset}"
    facts: dict[str, Any] = {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "records": batch.record_count,
        "bytes": batch.size,
        "codec": Codec(batch.attributes & CODEC_MASK).name.lower(),
        "crc": f"{batch.crc:08x}",
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "sequence": None
        if batch.base_sequence < 0
        else batch.base_sequence + message.offset - batch.base_offset,
        "transactional": bool(batch.attributes & TRANSACTIONAL),
        "time_set_by": "broker" if batch.attributes & LOG_APPEND_TIME else "producer",
    }
    wanted = framed(message.value, message.headers)
    (decoded,) = await shown_values(asked.options.decode, [wanted])
    (decoded_key,) = await shown_values(asked.options.decode, [framed(message.key)])
    key_text = words.payload(message.key)
    if decoded_key is not None and not decoded_key.problem:
        key_text = words.text(decoded_key.text)
    mask = asked.options.mask
    if mask:
        message.key, message.value = mask.key(message.key), mask.value(message.value)
        key_text = words.payload(mask.key(key_text.encode()))
        if decoded is not None:
            text = (mask.value(decoded.text.encode()) or b"").decode()
            decoded = decoded._replace(text=text, problem="hidden" if decoded.problem else "")
    forms = FORMS if decoded is None else {"decoded": decoded.kind or "Schema", **FORMS}
    form = asked.query("view")
    return View(
        "record",
        f"{name}, {size:,} bytes, written {words.ago(message.timestamp)}",
        data={
            "at": at,
            "message": message,
            "as_json": words.pretty_json(message.value, SHOWN_MAX),
            "as_text": words.lines(message.value, SHOWN_MAX),
            "as_hex": words.hex_dump(message.value),
            "decoded": decoded,
            "as_decoded": None
            if decoded is None
            else words.pretty_json(decoded.text.encode(), SHOWN_MAX)
            or words.lines(decoded.text.encode(), SHOWN_MAX),
            "key_text": key_text,
            "headers": [(key, value) for key, value in message.headers],
            "facts": facts,
            "passed": passed,
            "trail": trail,
            "forms": forms,
            "form": form if form in forms else next(iter(forms)),
            "letter_topics": _letter_topics(asked, at.topic),
        },
        document={
            **json.loads(to_json(message)),
            **({} if decoded is None else {"decoded": decoded._asdict()}),
            "batch": facts,
            "groups": passed,
        },
        rows=[{"name": key, "value": value} for key, value in facts.items()],
        columns=["name", "value"],
        command=f"consume {shlex.quote(at.topic)} -p {at.partition} -o {message.offset} -c 1 -J",
    )


async def raw_value(asked: Asked) -> Response:
    """The bytes of the value, as a download."""
    if not asked.options.allow_export:
        raise InvalidRequest(Code.POLICY_VIOLATION, "this console was started with --no-export")
    at, message = await _found(asked)
    message.value = asked.options.mask.value(message.value)
    file = f"{at.partition}-{message.offset}.bin"
    return Response(
        message.value or b"",
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{file}"'},
    )


async def _passed(asked: Asked, at: TopicPartition, offset: int) -> list[dict[str, Any]]:
    """The groups that have committed offsets in the partition: before the record, or after it."""
    offsets = await asked.state.group_offsets()
    return [
        {
            "group": group,
            "committed": committed[at].offset,
            "passed": committed[at].offset > offset,
        }
        for group, committed in sorted(offsets.items())
        if at in committed
    ]


def _letter_topics(asked: Asked, topic: str) -> list[str]:
    """Where letters about records of the topic usually are."""
    view = asked.state.snapshot
    names = () if view is None else view.topics
    return [name for name in (topic + ending for ending in LETTER_ENDINGS) if name in names]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
