"""Where a seek may go, read from what people and files say."""

from pathlib import Path

import pytest

from barnabas.cli.groups.targets import parse_target, read_places
from barnabas.client.groups.targets import Target
from barnabas.model.ids import TopicPartition

PLACES = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Target(name="earliest")),
        ("latest", Target(name="latest")),
        ("0", Target(offset=0)),
        ("1700000000000", Target(offset=1_700_000_000_000)),
        ("@1700000000000", Target(time_ms=1_700_000_000_000)),
        ("2023-11-14T22:13:20Z", Target(time_ms=1_700_000_000_000)),
    ],
)
def test_a_place_is_a_name_an_offset_or_a_time(text: str, target: Target) -> None:
    assert parse_target(text, "g") == target


@pytest.mark.parametrize("text", ["", "first", "-5", "@x", "9" * 30, "/no/such/file", "./"])
def test_any_other_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_target(text, "g")


@pytest.mark.parametrize(
    "text",
    [
        "t,0,5\nt,1,7\n",  # kafka-consumer-groups --export, of one group
        "g,t,0,5\ng,t,1,7\nother,t,0,99\n",  # the same, of several
        "\ufefftopic,partition,offset\r\nt,0,5\r\nt,1,7\r\n",
        "topic,partition,committed,end,lag\nt,0,5,9,4\nt,1,7,9,2\nt,2,,9,\n",  # describe's own
        '[{"topic":"t","partition":0,"offset":5},{"topic":"t","partition":1,"committed":7}]',
        '{"topic":"t","partition":0,"offset":5}\n\n{"topic":"t","partition":1,"offset":7}\n',
        '{"group":"g","partitions":[{"topic":"t","partition":0,"committed":5},'
        '{"topic":"t","partition":1,"committed":7},{"topic":"t","partition":2,"committed":null}]}',
    ],
)
def test_a_file_holds_csv_or_json(tmp_path: Path, text: str) -> None:
    file = tmp_path / "offsets"
    file.write_text(text, encoding="utf-8")
    assert parse_target(str(file), "g") == Target(places=PLACES)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no offsets for group 'g'"),
        ("other,t,0,5", "no offsets for group 'g'"),
        ("t,0", "line 1: 2 columns"),
        ("t,0,5\nt,1", "line 2: 2 columns"),
        ("t,zero,5", "line 1: partition 'zero': expected a number"),
        ("t,0,-5", "line 1: offset '-5': expected a number"),
        ("t,0,5\nt,0,6", "line 2: t-0 is there twice"),
        (",0,5", "line 1: no topic"),
        ("[1, 2]", "expected a list of objects"),
        ("{", "neither JSON nor JSON lines"),
        ("[" * 100_000, "neither JSON nor JSON lines"),
        ('[{"topic":"t","partition":true,"offset":5}]', "partition 'True'"),
        ('[{"topic":5,"partition":0,"offset":5}]', "no topic"),
        ('[{"topic":"t","partition":0,"offset":5.5}]', "offset '5.5'"),
    ],
)
def test_a_file_of_rubbish_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_places(text, "g")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    file.write_bytes(b"t,0,5\n\xff\xfe")
    with pytest.raises(ValueError, match="byte 6 is not UTF-8"):
        parse_target(str(file), "g")
