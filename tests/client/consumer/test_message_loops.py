"""The loop that makes messages, plain and compiled, against what it must refuse."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import barnabas
from barnabas.client.consumer import message_loops as imported
from barnabas.model.errors import Corrupt
from barnabas.wire.batch import LOG_APPEND_TIME, read_header
from barnabas.wire.records import Record, decode_batch, encode_batch, records_of
from tests.plain import flavours, from_source

_EVER = 2**62

FLAVOURS = flavours(from_source("barnabas.client.consumer.message_loops"), imported)
loops = pytest.mark.parametrize("loops", FLAVOURS)

RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3),
        st.integers(0, 2**41),
    ),
    max_size=20,
)


def messages(loops: Any, batch: bytes, first: int = 0, stop: int = _EVER) -> list[Any]:
    header = read_header(batch)
    return decoded(loops, records_of(batch, header), header, first, stop)


def decoded(loops: Any, body: bytes, header: Any, first: int = 0, stop: int = _EVER) -> list[Any]:
    found: list[Any] = loops.decode_messages(
        ("t", 3, header, None),
        body,
        header.record_count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        bool(header.attributes & LOG_APPEND_TIME),
        first,
        stop,
    )
    return found


@loops
@given(RECORDS)
def test_messages_are_the_records_that_the_other_loop_reads(loops: Any, rows: list[Any]) -> None:
    batch = bytes(
        encode_batch(
            [Record(7 + n, row[3], row[0], row[1], tuple(row[2])) for n, row in enumerate(rows)],
            base_offset=7,
        )
    )
    found = messages(loops, batch)
    assert [
        Record(m.offset, m.timestamp, m.key, m.value, m.headers) for m in found
    ] == decode_batch(batch)
    assert all((m.topic, m.partition, m.leader_epoch) == ("t", 3, -1) for m in found)
    assert [m.offset for m in messages(loops, batch, 9, 12)] == [
        offset for offset in range(7, 7 + len(rows)) if 9 <= offset < 12
    ]


@loops
def test_a_batch_whose_time_the_broker_set_has_one_time(loops: Any) -> None:
    batch = bytes(encode_batch([Record(0, 5, None, b"a")], log_append_time=99))
    assert messages(loops, batch)[0].timestamp == 99


@loops
@given(st.data())
def test_rubbish_is_corrupt_and_nothing_else(loops: Any, data: st.DataObject) -> None:
    records = [Record(n, n, b"key", b"value", (("h", b"x"),)) for n in range(5)]
    batch = bytes(encode_batch(records))
    header = read_header(batch)
    body = bytearray(records_of(batch, header))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    for body_now in (bytes(body), bytes(body[:cut])):
        try:
            for message in decoded(loops, body_now, header):
                assert isinstance(message.headers, tuple)
                assert repr(message)
        except Corrupt:
            pass


@loops
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\x00", "record of 0 bytes"),
        (b"\x80" * 11, "over 64 bits"),
        (b"\x80", "cut short"),
        (b"\x10\0\0\0\x40a\0\0\0", "key of 32 bytes"),
        (b"\x10\0\0\0\x03a\0\0\0", "key of -2 bytes"),
        (b"\x10\0\0\0\x01\x40a\0\0", "value of 32 bytes"),
        (b"\x10\0\0\x02\x01\x01\0\0\0", "offset delta 1"),
        (b"\x0e\0\0\0\x01\x01\0\0\0", "records end at byte 8 of 9"),
    ],
)
def test_what_does_not_fit_is_named(loops: Any, body: bytes, said: str) -> None:
    header = read_header(encode_batch([Record(0, 0, None, None)]))
    with pytest.raises(Corrupt, match=said):
        decoded(loops, body, header)


@loops
@pytest.mark.parametrize(
    "packed",
    [b"", b"\x02", b"\x01", b"\x02\x01\x00", b"\x02\x02\xff\x00", b"\x02\x02a\x05", b"\x00\x00"],
)
def test_headers_that_cannot_be_read_are_corrupt_when_asked_for(loops: Any, packed: bytes) -> None:
    message = loops.Message(("t", 0, None, None), 0, 0, None, None, packed)
    with pytest.raises(Corrupt):
        _ = message.headers


def test_a_message_can_be_pickled() -> None:
    """To be handed to a worker process."""
    from tests.cli.test_formats import message

    copy = pickle.loads(pickle.dumps(message(headers=(("a", b"1"),))))  # noqa: S301
    assert (copy.topic, copy.offset, copy.headers) == ("topic", 42, (("a", b"1"),))
    assert barnabas.Message[str, int] is barnabas.Message
