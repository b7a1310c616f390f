"""kcat's letters, JSON lines, offsets and tables: the pure parts of the command."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.formats import compile_format, unescape
from barnabas.cli.offsets import OffsetRangeOption, parse_range
from barnabas.client.consumer.json_lines import from_json, to_json
from barnabas.client.consumer.message import Message, PartitionMarks, RawMessage
from barnabas.client.tables import table
from barnabas.model.times import iso_time, parse_time
from barnabas.wire.batch import LOG_APPEND_TIME, BatchHeader
from barnabas.wire.records import Headers

BATCH = BatchHeader(
    base_offset=0,
    length=0,
    leader_epoch=4,
    magic=2,
    crc=0,
    attributes=0,
    last_offset_delta=0,
    base_timestamp=0,
    max_timestamp=0,
    producer_id=5,
    producer_epoch=6,
    base_sequence=0,
    record_count=1,
)


def message(
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: Headers = (),
    attributes: int = 0,
    timestamp: int = 1_700_000_000_123,
) -> RawMessage:
    batch = BATCH._replace(attributes=attributes)
    source = ("topic", 7, batch, PartitionMarks(1, 2, 3))
    return Message(source, 42, timestamp, key, value, headers)


@pytest.mark.parametrize(
    ("format_", "printed"),
    [
        ("%s\\n", b"value\n"),
        ("%t-%p@%o", b"topic-7@42"),
        ("%k[%K]=%s[%S]", b"key[3]=value[5]"),
        ("%R%s", b"\0\0\0\5value"),
        ("%T", b"1700000000123"),
        ("%d", b"2023-11-14T22:13:20.123Z"),
        ("%d{strftime[%H:%M]}|", b"22:13|"),
        ("%h", b"a=b,c=NULL"),
        ("%e %x %y %[ %| %] %v", b"4 5 6 1 2 3 value"),
        ("100%%\\t\\x41\\\\", b"100%\tA\\"),
        ("é", "é".encode()),
        ("", b""),
    ],
)
def test_letters_are_kcats(format_: str, printed: bytes) -> None:
    headers: Headers = (("a", b"b"), ("c", None))
    assert compile_format(format_)(message(headers=headers)) == printed


def test_null_is_empty_with_length_minus_one_or_a_word_if_asked() -> None:
    nothing = message(key=None, value=None)
    assert compile_format("%k|%K|%s|%S|%R")(nothing) == b"|-1||-1|\xff\xff\xff\xff"
    assert compile_format("%k|%s", b"NULL")(nothing) == b"NULL|NULL"


@pytest.mark.parametrize("format_", ["%q", "%", "\\q", "\\x4", "\\", "%d{strftime[%H"])
def test_a_letter_that_is_none_is_named(format_: str) -> None:
    with pytest.raises(ValueError, match=r"is no|not closed"):
        compile_format(format_)


def test_delimiters_may_be_escaped() -> None:
    assert unescape("\\t") == b"\t"
    assert unescape("a\\x00\\n") == b"a\0\n"


BYTES = st.none() | st.binary(max_size=8) | st.text(max_size=4).map(str.encode)
HEADERS = st.lists(st.tuples(st.text(max_size=4), BYTES), max_size=3).map(tuple)


@given(BYTES, BYTES, HEADERS)
def test_what_consume_writes_produce_reads(
    key: bytes | None, value: bytes | None, headers: Headers
) -> None:
    line = to_json(message(key, value, headers))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert from_json(line) == (key, value, headers, 1_700_000_000_123)


def test_json_has_kcats_names() -> None:
    fields = json.loads(to_json(message(headers=(("a", b"b"),), attributes=LOG_APPEND_TIME)))
    assert fields == {
        "topic": "topic",
        "partition": 7,
        "offset": 42,
        "tstype": "logappend",
        "ts": 1_700_000_000_123,
        "headers": ["a", "b"],
        "key": "key",
        "payload": "value",
    }


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{",
        b'{"headers": ["a"]}',
        b'{"headers": [1, "a"]}',
        b'{"payload": 1}',
        b'{"ts": "x"}',
        b'{"ts": true}',
        b'{"payload_base64": "*"}',
        b"\xff",
    ],
)
def test_a_line_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(line)


@pytest.mark.parametrize(
    ("words", "range_"),
    [
        ([], OffsetRangeOption()),
        (["beginning"], OffsetRangeOption("beginning")),
        (["end"], OffsetRangeOption("end")),
        (["17"], OffsetRangeOption(17)),
        (["-5"], OffsetRangeOption(-5)),
        (["s@1000", "e@2000"], OffsetRangeOption("beginning", 1000, 2000)),
        (["e@1970-01-01T00:00:01Z"], OffsetRangeOption("beginning", None, 1000)),
    ],
)
def test_offsets_are_read_as_kcat_reads_them(words: list[str], range_: OffsetRangeOption) -> None:
    assert parse_range(words) == range_


@pytest.mark.parametrize("word", ["", "start", "--5", "s@", "s@yesterday", "1.5", "e@2026-13-01"])
def test_an_offset_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_range([word])


def test_times_round_trip() -> None:
    assert parse_time(iso_time(1_700_000_000_123)) == 1_700_000_000_123


def test_a_table_is_as_wide_as_it_needs_to_be() -> None:
    rows: list[dict[str, Any]] = [
        {"name": "a", "count": 1, "list": [1, 2]},
        {"name": "long", "count": 100, "list": []},
    ]
    assert table(rows, ["name", "count", "list"]) == (
        "NAME  COUNT  LIST\na         1  1,2\nlong    100\n"
    )
    assert table([], ["name"]) == "NAME\n"


@pytest.mark.parametrize("format_", ["%d", "%d{strftime[%H:%M]}"])
def test_a_time_past_the_year_9999_is_a_bare_number(format_: str) -> None:
    far = message(timestamp=2**62)
    assert compile_format(format_)(far) == b"%d" % 2**62


def test_bytes_of_the_command_line_that_are_no_text_stay_as_they_are() -> None:
    assert unescape("a\udcff") == b"a\xff"
    assert compile_format("\udcff%s")(message()) == b"\xffvalue"


@pytest.mark.parametrize(
    "line", [b'{"payload":' + b"[" * 100_000, b'{"headers":["\\ud800","x"]}', b'{"key":"\\ud800"}']
)
def test_a_line_that_is_no_record_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"nested|surrogates"):
        from_json(line)
