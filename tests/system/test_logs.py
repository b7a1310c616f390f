"""What a log line looks like, and that logging never fails."""

import errno
import io
import json

import pytest

from barnabas.system.logs import Logger


class Full(io.StringIO):
    """A file on a disk without room."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


class Unread(io.StringIO):
    """A pipe that nobody reads."""

    def flush(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BARNABAS_LOG", "BARNABAS_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)


def text_line(monkeypatch: pytest.MonkeyPatch, **values: object) -> str:
    monkeypatch.setenv("BARNABAS_LOG", "text")
    stream = io.StringIO()
    Logger(stream).info("it happened", **values)
    return stream.getvalue()


def test_a_text_line_has_time_level_event_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    stamp, rest = text_line(monkeypatch, topic="orders", count=3).split(" ", 1)
    assert stamp.endswith("Z")
    assert rest == "info    it happened topic=orders count=3\n"


def test_a_json_line_keeps_the_values_apart() -> None:
    stream = io.StringIO()
    Logger(stream).error("it happened", topic="a b", count=3, none=None, odd=b"\xff")
    entry = json.loads(stream.getvalue())
    entry.pop("time")
    assert entry == {
        "level": "error",
        "event": "it happened",
        "topic": "a b",
        "count": 3,
        "none": None,
        "odd": "b'\\xff'",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("a b", '"a b"'),
        ("a=b", '"a=b"'),
        ('a"b', '"a\\"b"'),
        ("a\nb", '"a\\nb"'),
        ("a\rb", '"a\\rb"'),
        ("\x1b[2J", '"\\u001b[2J"'),
        ("a\u2028b", '"a\\u2028b"'),
        ("\udcff", '"\\udcff"'),
        ("größe", "größe"),
    ],
)
def test_a_text_value_cannot_break_its_line_or_the_terminal(
    monkeypatch: pytest.MonkeyPatch, value: str, shown: str
) -> None:
    assert text_line(monkeypatch, client=value).endswith(f" client={shown}\n")


def test_a_long_value_is_cut_but_a_traceback_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    line = text_line(monkeypatch, client="x" * 5_000, trace="y" * 5_000)
    assert "x" * 1_000 + "... (5000 characters)" in line
    assert "x" * 1_001 not in line
    assert "y" * 5_000 in line


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("kind", [Full, Unread])
def test_a_log_that_cannot_be_written_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, form: str, kind: type[io.StringIO]
) -> None:
    monkeypatch.setenv("BARNABAS_LOG", form)
    Logger(kind()).error("it happened", topic="orders")


def test_a_closed_log_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    log = Logger(stream)
    stream.close()
    log.error("it happened")


def test_a_level_hides_what_is_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_LOG_LEVEL", "WARNING")
    stream = io.StringIO()
    log = Logger(stream)
    log.info("hidden")
    log.warning("shown")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["shown"]


def test_an_unknown_level_means_info_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_LOG_LEVEL", "loud")
    stream = io.StringIO()
    log = Logger(stream)
    log.debug("hidden")
    log.info("shown")
    warning, shown = map(json.loads, stream.getvalue().splitlines())
    assert warning["level_given"] == "loud"
    assert shown["event"] == "shown"


def test_brokers_that_share_a_stream_say_whose_line_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for form, expected in (("json", '"node": 2, "event": "it happened"'), ("text", "[2] it happ")):
        monkeypatch.setenv("BARNABAS_LOG", form)
        stream = io.StringIO()
        log = Logger(stream)
        log.node = 2
        log.info("it happened")
        assert expected in stream.getvalue()
