"""The command against a broker: topics, records in, records out."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.cli.command import Ended, barnabas
from tests.process import BrokerProcess
from tests.waiting import WAIT_S, until

pytestmark = pytest.mark.slow


class Shell:
    """The command, with the broker in its environment."""

    def __init__(self, servers: str) -> None:
        self.servers = servers

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> Ended:
        return barnabas(*arguments, stdin=stdin, servers=self.servers)

    def out(self, *arguments: str, stdin: str | bytes = "") -> str:
        ended = self(*arguments, stdin=stdin)
        assert ended.code == 0, ended
        return ended.out


@pytest.fixture
def shell(broker: BrokerProcess) -> Shell:
    return Shell(broker.bootstrap_servers)


def test_a_topic_is_created_listed_described_and_deleted(shell: Shell, topic: str) -> None:
    assert shell.out("topic", "create", topic, "-p", "3") == ""
    rows = json.loads(shell.out("topic", "ls", "--output", "json"))
    assert {"topic": topic, "partitions": 3, "replicas": 1, "internal": False} in rows
    described = shell.out("topic", "describe", topic, "-J").splitlines()
    assert [json.loads(line)["partition"] for line in described] == [0, 1, 2]
    csv = shell.out("topic", "describe", topic, "--output", "csv").splitlines()
    assert csv[0].startswith("partition,leader,epoch,replicas,in_sync,start,high_watermark")
    assert len(csv) == 4
    assert shell("topic", "create", topic).code == 1
    shell.out("topic", "create", topic, "--if-not-exists")
    shell.out("topic", "delete", topic, "-y")
    gone = shell("topic", "delete", topic, "-y")
    assert gone.code == 3
    assert "does not exist" in gone.err
    shell.out("topic", "delete", topic, "--if-exists", "-y")


def test_a_dry_run_creates_nothing(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic, "--dry-run")
    assert shell("topic", "describe", topic).code == 3


def test_a_topic_that_is_not_there_gets_the_nearest_name(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic)
    ended = shell("consume", topic[:-1] + "x", "-e")
    assert ended.code == 3
    assert "did you mean test_a_topic" in ended.err
    assert ended.err.count("\n") == 1


def test_options_are_set_shown_and_reset(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic, "-c", "retention.ms=1000")
    shell.out("topic", "config", topic, "--set", "max.message.bytes=5000", "--set", "segment.ms=7")
    shell.out("topic", "config", topic, "--reset", "retention.ms")

    def own() -> dict[str, str]:
        rows = [json.loads(line) for line in shell.out("topic", "config", topic, "-J").splitlines()]
        return {row["name"]: row["value"] for row in rows if row["source"] == "dynamic topic"}

    # Kafka's brokers learn of it a little later.
    until(lambda: own() == {"max.message.bytes": "5000", "segment.ms": "7"}, own)
    every = json.loads(shell.out("topic", "config", topic, "--all", "--output", "json"))
    assert {"name": "retention.ms", "value": "604800000", "source": "default"} in every
    wrong = shell("topic", "config", topic, "--set", "retention.m=1")
    assert wrong.code == 1
    assert "retention.m" in wrong.err


def test_partitions_are_added(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic, "-p", "1")
    assert "has 4 partitions" in shell("topic", "add-partitions", topic, "3").err


def test_lines_go_in_and_come_out(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic)
    shell.out("produce", topic, stdin="one\ntwo\nthree")
    assert shell.out("consume", topic, "-e") == "one\ntwo\nthree\n"
    assert shell.out("consume", topic, "-c", "2") == "one\ntwo\n"
    assert shell.out("consume", topic, "-o", "-1", "-e") == "three\n"
    assert shell.out("consume", topic, "-o", "1", "-e", "-f", "%o=%s,") == "1=two,2=three,"
    assert shell.out("consume", topic, "-o", "end", "-e") == ""


def test_produce_creates_the_topic_if_the_broker_may(shell: Shell, topic: str) -> None:
    shell.out("produce", topic, stdin="x\n")
    assert shell.out("consume", topic, "-e") == "x\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_every_codec_and_acks_carry_keys_headers_and_nulls(
    shell: Shell, topic: str, codec: str, acks: str
) -> None:
    shell.out("topic", "create", topic)
    settings = ["-z", codec, "--acks", acks, "-K", ":", "-Z", "-H", "h=1", "-H", "n"]
    shell.out("produce", topic, *settings, stdin="k:v\n:v\nk:\n")
    printed = shell.out("consume", topic, "-c", "3", "-f", "%k[%K] %s[%S] %h\\n", "-Z")
    assert printed == ("k[1] v[1] h=1,n=NULL\nNULL[-1] v[1] h=1,n=NULL\nk[1] NULL[-1] h=1,n=NULL\n")


def test_json_lines_survive_the_way_through(shell: Shell, topic: str) -> None:
    shell.out("produce", topic, "-K", ":", stdin=b"k:v\n\xff\xfe:\x00\xff\n:\n")
    lines = shell.out("consume", topic, "-e", "-J")
    shell.out("produce", f"{topic}-copy", "-J", stdin=lines)
    again = shell.out("consume", f"{topic}-copy", "-e", "-J")
    assert again.replace("-copy", "") == lines
    assert json.loads(lines.splitlines()[1])["key_base64"] == "//4="


def test_a_line_that_is_no_record_stops_after_those_before_it(shell: Shell, topic: str) -> None:
    good = '{"payload": "good"}\n'
    ended = shell("produce", topic, "-J", stdin=good + "bad\n" + good)
    assert ended.code == 1
    assert "line 2" in ended.err
    assert shell.out("consume", topic, "-e") == "good\n"


def test_times_bound_what_is_read(shell: Shell, topic: str) -> None:
    lines = "".join(f'{{"payload": "{n}", "ts": {1000 * n}}}\n' for n in range(1, 6))
    shell.out("produce", topic, "-J", stdin=lines)
    assert shell.out("consume", topic, "-o", "s@3000", "-e") == "3\n4\n5\n"
    assert shell.out("consume", topic, "-o", "e@3000") == "1\n2\n"
    assert shell.out("consume", topic, "-o", "s@2000", "-o", "e@1970-01-01T00:00:04Z") == "2\n3\n"
    assert shell.out("consume", topic, "-o", "s@9000", "-e") == ""
    assert shell.out("consume", topic, "-c", "1", "-f", "%d") == "1970-01-01T00:00:01.000Z"


def test_keys_go_where_java_sends_them(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic, "-p", "5")
    shell.out("produce", topic, "-k", "foobar", stdin="x\n")
    assert shell.out("consume", topic, "-e", "-f", "%p") == str((-790332482 & 0x7FFFFFFF) % 5)


def test_one_partition_can_be_written_and_read(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic, "-p", "3")
    for number in range(3):
        shell.out("produce", topic, "-p", str(number), stdin=f"{number}\n")
    assert shell.out("consume", topic, "-p", "1", "-e") == "1\n"
    assert sorted(shell.out("consume", topic, "-e").split()) == ["0", "1", "2"]
    assert shell("consume", topic, "-p", "9", "-e").code == 3
    failed = shell("produce", topic, "-p", "9", stdin="x\n")
    assert failed.code == 1
    assert "no partition 9" in failed.err


def test_a_record_that_is_refused_is_reported_and_the_exit_code_says_so(
    shell: Shell, topic: str
) -> None:
    shell.out("topic", "create", topic, "-c", "max.message.bytes=1000")
    failed = shell("produce", topic, "-X", "batch.size=500", stdin="small\n" + "x" * 2000 + "\n")
    assert failed.code == 1
    assert "record 2" in failed.err
    assert "1 records were not written" in failed.err
    assert shell.out("consume", topic, "-e") == "small\n"


def test_trimming_deletes_the_oldest(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic, "-p", "2")
    shell.out("produce", topic, "-p", "0", stdin="1\n2\n3\n4\n")
    shell.out("topic", "trim", topic, "-o", "3", "-y")
    assert shell.out("consume", topic, "-e") == "4\n"
    rows = shell.out("topic", "trim", topic, "-o", "end", "-y", "-J").splitlines()
    assert [json.loads(row) for row in rows] == [
        {"partition": 0, "start": 4},
        {"partition": 1, "start": 0},
    ]
    assert shell.out("consume", topic, "-e") == ""


def test_reading_goes_on_until_interrupted(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic)
    environment = {**os.environ, "BARNABAS_BOOTSTRAP_SERVERS": shell.servers}
    # A shell that starts this in the background ignores the signal, and the child inherits that.
    ignored = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        reader = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "consume", topic],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
    finally:
        signal.signal(signal.SIGINT, ignored)
    with reader:
        try:
            assert reader.stdout is not None
            shell.out("produce", topic, stdin="first\n")
            assert reader.stdout.readline() == b"first\n"
            shell.out("produce", topic, stdin="second\n")
            assert reader.stdout.readline() == b"second\n"
            reader.send_signal(signal.SIGINT)
            _, err = reader.communicate(timeout=WAIT_S)
        finally:
            reader.kill()
    assert reader.returncode == 130
    assert err == b""


def test_a_reader_that_closes_its_end_is_no_error_to_speak_of(shell: Shell, topic: str) -> None:
    shell.out("produce", topic, stdin="line\n" * 100_000)
    environment = {**os.environ, "BARNABAS_BOOTSTRAP_SERVERS": shell.servers}
    writer = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "consume", topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    assert writer.stdout.readline() == b"line\n"
    writer.stdout.close()
    assert writer.stderr.read() == b""
    writer.stderr.close()
    assert writer.wait(WAIT_S) == 141


def test_a_record_of_ten_megabytes_goes_through(shell: Shell, topic: str) -> None:
    shell.out("topic", "create", topic, "-c", "max.message.bytes=20000000")
    large = "x" * 10_000_000
    shell.out("produce", topic, stdin=large)
    assert shell.out("consume", topic, "-e", "-f", "%s") == large


def test_a_key_and_a_header_may_be_any_bytes(shell: Shell, topic: str) -> None:
    shell.out("produce", topic, "-k", "\udcff", "-H", "h=\udcfe", stdin="v\n")
    assert shell.out("consume", topic, "-e", "-f", "%k %h %s") == "\udcff h=\udcfe v"


def test_text_for_the_broker_that_is_not_utf_8_is_one_line(shell: Shell, topic: str) -> None:
    ended = shell("topic", "create", topic, "-c", "retention.ms=\udcff")
    assert ended.code == 1
    assert "topics.configs.value" in ended.err
    assert ended.err.count("\n") == 1
