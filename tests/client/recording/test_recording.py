"""A topic goes into a file and comes back, records and partitions alike."""

from pathlib import Path

import pytest

from barnabas.cli.app import run
from barnabas.client.recording.recording_file import MAGIC
from barnabas.client.samples.samples import KINDS, SamplePlan, made_of
from barnabas.model.errors import Corrupt, InvalidRequest
from barnabas.testing import Kafka


def test_a_recording_is_replayed_into_another_topic(tmp_path: Path) -> None:
    path = str(tmp_path / "bug.brec")
    with Kafka() as kafka:
        at = ("-b", kafka.bootstrap_servers)
        kafka.create_topic("orders", 3, configs={"retention.ms": 123_456})
        kafka.produce("orders", ["1", None, "3"], key="k", headers={"h": "v"})
        kafka.produce("orders", ["4"], partition=2, timestamp=1_700_000_000_000)
        assert run([*at, "record", "orders", path]) == 0
        assert run([*at, "replay", path, "--to", "copy"]) == 0
        before, after = kafka.records("orders"), kafka.records("copy")
        assert [(r.partition, r.key, r.value, r.timestamp, r.headers) for r in before] == [
            (r.partition, r.key, r.value, r.timestamp, r.headers) for r in after
        ]
        options = {option.name: option.value for option in kafka.admin.topic_options("copy")}
        assert options["retention.ms"] == "123456"
    with Kafka() as kafka:  # as a test loads it
        assert kafka.load(path) == 4
        assert len(kafka.records("orders")) == 4


def test_a_file_that_is_damaged_or_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with Kafka() as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", ["1"])
        run(["-b", kafka.bootstrap_servers, "record", "orders", str(path)])
        whole = path.read_bytes()
        path.write_bytes(b"something else")
        with pytest.raises(InvalidRequest, match="this is not a recording"):
            kafka.load(str(path))
        path.write_bytes(whole[:-1])
        with pytest.raises(Corrupt, match="cut off"):
            kafka.load(str(path), "copy")
        path.write_bytes(whole[:-1] + b"\xff")
        with pytest.raises(Corrupt):
            kafka.load(str(path), "copy")
        path.write_bytes(MAGIC + b"{}\n")
        with pytest.raises(Corrupt, match="header"):
            kafka.load(str(path))


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_the_same_for_the_same_seed(kind: str) -> None:
    plan = SamplePlan(KINDS[kind], seed=7, poison=0.1, late=0.2, hot_key=0.3, keys=10)
    samples = [plan.sample(number) for number in range(1_000)]
    assert samples == [plan.sample(number) for number in range(1_000)]
    assert samples != [SamplePlan(KINDS[kind], seed=8).sample(n) for n in range(1_000)]
    kinds = [sample.kind for sample in samples]
    assert 50 < kinds.count("poison") < 150
    assert 130 < kinds.count("late") < 270
    hot = samples[0].key[:1] + b"0"
    assert sum(sample.key == hot for sample in samples) > 250


def test_fields_of_ones_own() -> None:
    make = made_of(
        {
            "key": "user",
            "fields": {
                "user": {"from": "u", "count": 3},
                "n": {"number": True},
                "size": {"min": 1, "max": 2},
                "share": {"min": 0.0, "max": 1.0},
                "color": ["red"],
                "version": 2,
            },
        }
    )
    sample = SamplePlan(make).sample(5)
    assert sample.key in (b"u0", b"u1", b"u2")
    assert b'"n":5' in sample.value
    assert b'"color":"red","version":2' in sample.value
    for wrong in ({}, {"fields": {"a": {"min": 1}}}, {"key": "b", "fields": {"a": 1}}):
        with pytest.raises(ValueError, match=r"expected|none of"):
            made_of(wrong)


def test_the_command_writes_lines_and_records(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["gen", "orders", "-c", "3"]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 3
    own = tmp_path / "own.yml"
    own.write_text("fields:\n  id: {number: true}\n")
    assert run(["gen", str(own), "-c", "2", "--rate", "1000"]) == 0
    assert b'{\\"id\\":1}' in capfdbinary.readouterr().out
    assert run(["gen", "apples"]) == 2
    with Kafka() as kafka:
        kafka.create_topic("clicks")
        at = ("-b", kafka.bootstrap_servers)
        assert run([*at, "gen", "clicks", "--to", "clicks", "-c", "50", "--poison", "10%"]) == 0
        assert len(kafka.records("clicks")) == 50
