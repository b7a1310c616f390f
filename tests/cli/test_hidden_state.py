"""State that was hidden: the keeper's nodes, the broker's own topics, high watermark, formulas."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import barnabas.sync
from barnabas.cli.app import root, run
from barnabas.cli.names import complete_topic
from barnabas.coordinators.groups.records import OffsetCommitValue, OffsetRecord, encode
from barnabas.coordinators.record_text import described
from barnabas.keeper.sqlite import SqliteKeeper
from barnabas.testing import Kafka
from tests.waiting import WAIT_S, until


def command(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capfd.readouterr()
    assert run(arguments) == code
    return capfd.readouterr().out


@pytest.fixture
def store(tmp_path: Path) -> str:
    keeper = SqliteKeeper(str(tmp_path / "keeper.db"))
    keeper.create("/brokers")
    keeper.create("/brokers/ids")
    keeper.create("/brokers/ids/1", b'{"port": 9092}')
    keeper.close()
    return str(tmp_path)


def test_the_keeper_can_be_looked_at(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert "/brokers" in command(capfd, "keeper", "ls", "--data", store)
    listed = command(capfd, "keeper", "ls", "/", "-R", "--data", store, "-J").splitlines()
    assert [json.loads(line)["path"] for line in listed] == [
        "/brokers",
        "/brokers/ids",
        "/brokers/ids/1",
    ]
    assert command(capfd, "keeper", "get", "/brokers/ids/1", "--data", store) == '{"port": 9092}\n'
    command(capfd, "keeper", "get", "/none", "--data", store, code=3)
    command(capfd, "keeper", "ls", "--data", f"{store}/nowhere", code=2)


def test_changes_of_the_keeper_are_watched(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    from barnabas.cli.machine.keeper import _changes, _whole

    keeper = SqliteKeeper(f"{store}/keeper.db")
    before = _whole(keeper, "/brokers")
    keeper.set("/brokers/ids/1", b"other")
    keeper.create("/brokers/ids/2")
    now = _whole(keeper, "/brokers")
    assert list(_changes(before, now)) == [
        "changed  /brokers/ids/1  other",
        "created  /brokers/ids/2  ",
    ]
    keeper.delete("/brokers/ids/2")
    assert list(_changes(now, _whole(keeper, "/brokers"))) == ["deleted  /brokers/ids/2"]
    keeper.close()
    command(capfd, "keeper", "watch", "--timeout", "0.01", "--data", store)


def test_records_of_the_brokers_own_topics_are_decoded() -> None:
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=1)
    ((key, data),) = encode([OffsetRecord("billing", "orders", 3, value)])
    found = described("__consumer_offsets", key, data)
    assert found is not None
    assert (found["kind"], found["group"], found["topic"]) == ("offset", "billing", "orders")
    assert (found["partition"], found["offset"]) == (3, 7)
    assert described("__consumer_offsets", key, None) == {
        "kind": "offset",
        "group": "billing",
        "topic": "orders",
        "partition": 3,
        "deleted": True,
    }
    assert described("orders", key, data) is None
    broken = described("__consumer_offsets", key[:5], data)
    assert broken is not None
    assert broken["kind"] == "unreadable"


def test_commands_show_offsets_groups_and_the_high_watermark(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Kafka(settings={"offsets.topic.num.partitions": 50}) as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", ["1"])
        at = ("-b", kafka.bootstrap_servers)
        with barnabas.sync.Consumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            group_protocol="classic",
        ) as consumer:
            consumer.getone(timeout=WAIT_S)
            consumer.commit()
            shown = command(capfd, *at, "group", "describe", "billing")
        assert '= hash("billing") % 50' in shown
        lines = command(capfd, *at, "consume", "__consumer_offsets", "-e").splitlines()
        kinds = {json.loads(line)["kind"] for line in lines}
        assert {"offset", "group"} <= kinds
        context = click.Context(root, info_name="barnabas")
        context.meta["barnabas.settings"] = {"bootstrap.servers": kafka.bootstrap_servers}
        for begun, name in (("or", "orders"), ("__c", "__consumer_offsets")):
            until(lambda: complete_topic(context, root.params[0], begun) == [name])  # noqa: B023
        assert "HIGH WATERMARK" in command(capfd, *at, "topic", "describe", "orders")
        for name in ("barnabas_high_watermark", "barnabas_log_end_offset"):
            assert re.search(rf'^{name}{{.*topic="orders".*}} 1\.0$', kafka.metrics(), re.M), name
        directory = next(Path(kafka.log_directory()).glob("__consumer_offsets-*/*.log")).parent
        dumps = [
            command(capfd, "log", "dump", "--records", str(path))
            for path in directory.parent.glob("__consumer_offsets-*")
            if any(file.stat().st_size for file in path.glob("*.log"))
        ]
        assert any('"group": "billing"' in dump for dump in dumps)
        servers = kafka.bootstrap_servers
        producer = barnabas.sync.Producer(bootstrap_servers=servers, transactional_id="t")
        with producer, producer.transaction():
            producer.send_nowait("orders", b"2")
        lines = command(capfd, *at, "consume", "__transaction_state", "-e").splitlines()
        assert {json.loads(line)["transactional_id"] for line in lines} == {"t"}


def test_replicated_topics_show_the_log_end_beside_the_high_watermark(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Kafka(3) as kafka:
        kafka.create_topic("orders", replicas=3)
        kafka.produce("orders", ["1"])
        at = ("-b", kafka.bootstrap_servers, "topic", "describe", "orders")
        assert re.search("HIGH WATERMARK +LOG END", command(capfd, *at))
        row = json.loads(command(capfd, *at, "-J"))
        assert (row["high_watermark"], row["log_end"]) == (1, 1)


def test_a_shell_completes_the_names_of_topics_and_groups(tmp_path: Path) -> None:
    """As bash asks: the words of the line and the number of the one to complete, in variables."""
    options = tmp_path / "client.properties"
    with Kafka() as kafka:
        options.write_text(f"bootstrap.servers={kafka.bootstrap_servers}\n")
        kafka.create_topic("orders")
        kafka.create_topic("payments")
        kafka.produce("orders", ["1"])
        with barnabas.sync.Consumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.getone(timeout=WAIT_S)
            consumer.commit()
            for line, names in (
                ("topic describe or", ["orders"]),
                ("consume ", ["orders", "payments"]),
                ("group explain bi", ["billing"]),
                ("group explain nothing", []),
            ):
                # A broker that takes longer than a second completes nothing.
                until(lambda: _completed(f"barnabas -F {options} {line}") == names, line)  # noqa: B023
                if "describe" in line:
                    at = f"barnabas -b {kafka.bootstrap_servers} {line}"
                    until(lambda: _completed(at) == names, at)  # noqa: B023


def _completed(line: str) -> list[str]:
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "barnabas"],
        env={
            **os.environ,
            "_BARNABAS_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    return [each.partition(",")[2] for each in done.stdout.splitlines() if each]
