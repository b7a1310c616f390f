"""Fields that a console was told not to show are on none of its pages."""

import pytest

from barnabas import Admin, Producer
from barnabas.client.workers.dead_letter_headers import LetterTrail, Origin
from barnabas.console.masking import HIDDEN, FieldMask
from barnabas.pipeline.formats.framed import DecodedValue
from tests.conftest import broker_with
from tests.console.asgi import ask
from tests.console.conftest import StartConsole
from tests.process import BrokerProcess

broker = broker_with()
SECRET = "4111-secret"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b'{"Card": "4111", "a": 1}', b'{"Card": "***", "a": 1}'),
        (b'[{"b": {"card": [1, 2]}}]', b'[{"b": {"card": "***"}}]'),
        (b'{"x": {"card": 1}, "x": 2}', b'{"x": 2}'),
        (b'{"card": 1', HIDDEN),
        (b"card=1", HIDDEN),
        (b'"4111"', HIDDEN),
        (b"\0\0\0\0\7\xff", HIDDEN),
        (None, None),
    ],
)
def test_a_field_is_masked_or_the_value_is_hidden(value: bytes | None, shown: bytes | None) -> None:
    assert FieldMask(("card",)).value(value) == shown
    assert FieldMask().value(value) == value


async def test_no_page_has_a_masked_field(
    start_console: StartConsole, broker: BrokerProcess, topic: str
) -> None:
    servers, letters = broker.bootstrap_servers, f"{topic}.dlq"
    value = b'{"order": 7, "card": "%s"}' % SECRET.encode()
    async with Admin(bootstrap_servers=servers) as admin:
        for name in (topic, letters):
            await admin.create_topic(name, partitions=1)
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send(topic, value, key=value)
        await producer.send(topic, b"not JSON " + value)
        await producer.send(topic, b"\0\0\0\0\7" + value)
        trail = LetterTrail("billing", Origin(topic, 0, 0), 1, "no amount", 3, 0, 5)
        await producer.send(letters, value, headers=list(trail.headers(())))

    def decode(framed: bytes) -> DecodedValue:
        return DecodedValue("Avro", 7, framed[5:].decode())

    app = start_console(mask=FieldMask(("card",)), decode=decode, allow_changes=True)
    guarded = app.guarded()
    records = f"/topics/{topic}/records"
    paths = [records, f"{records}.json", f"{records}.csv", f"{records}?value=order&plain=1"]
    paths += [f"/topics/{topic}/scan?value=order", f"/topics/{topic}/export"]
    paths += [f"/topics/{topic}/export?as=csv", f"/dlq/{letters}", f"/dlq/{letters}.json"]
    for offset in range(3):
        one = f"/topics/{topic}/0/{offset}"
        paths += [one, f"{one}.json", f"{one}?view=hex", f"{one}?view=text", f"{one}/value"]
        paths.append(f"/topics/{topic}/produce?from=0:{offset}")
    for path in paths:
        answer = await ask(guarded, path)
        assert answer.status == 200, path
        assert SECRET not in answer.text, path
        assert SECRET[:8].encode().hex(" ") not in answer.text, path
    assert "***" in (await ask(guarded, f"/topics/{topic}/export")).text
    assert (await ask(guarded, "/sql?q=select+1")).status == 400


async def test_a_search_does_not_find_what_is_masked(
    start_console: StartConsole, broker: BrokerProcess, topic: str
) -> None:
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic(topic, partitions=1)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send(topic, b'{"card": "%s"}' % SECRET.encode())
    guarded = start_console(mask=FieldMask(("card",))).guarded()
    for path in (f"records.json?plain=1&value={SECRET}", f"export?value={SECRET}"):
        assert (await ask(guarded, f"/topics/{topic}/{path}")).text.strip() in ("[]", "")
    scanned = (await ask(guarded, f"/topics/{topic}/scan?value={SECRET}")).text
    assert "Done: 0 records found" in scanned
