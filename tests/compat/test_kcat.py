"""kcat, as people use it: listing, producing, consuming with formats, asking by time."""

import json
import subprocess
from collections.abc import Callable

import pytest

from tests.compat.adapters.client import Record
from tests.compat.conftest import Address, Clients
from tests.waiting import PROGRAM_S, WAIT_S

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
BASE_MS = 1_700_000_000_000

Kcat = Callable[..., str]


@pytest.fixture
def run(kcat: str, broker: Address) -> Kcat:
    """kcat's standard output; the first argument is what it reads."""

    def run(stdin: str, *arguments: str) -> str:
        done = subprocess.run(
            [kcat, "-b", broker.bootstrap_servers, "-m", str(int(WAIT_S)), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_kcat_lists_brokers_topics_and_partitions(
    run: Kcat, clients: Clients, broker: Address, topic: str
) -> None:
    clients["confluent"].create_topic(topic, partitions=3)
    listed = run("", "-L", "-t", topic)
    addresses = broker.bootstrap_servers.split(",")
    assert sum(f"at {address} (controller)" in listed for address in addresses) == 1
    assert all(f"at {address}" in listed for address in addresses)
    assert f'topic "{topic}" with 3 partitions:' in listed
    everything = json.loads(run("", "-L", "-J"))
    (found,) = [each for each in everything["topics"] if each["topic"] == topic]
    assert [each["partition"] for each in found["partitions"]] == [0, 1, 2]


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_reads_what_it_wrote_in_any_codec(run: Kcat, topic: str, codec: str) -> None:
    lines = "".join(f"key{n}:value {n} {'x' * n}\n" for n in range(300))
    run(lines, "-P", "-t", topic, "-p", "0", "-K:", "-z", codec, "-X", "linger.ms=50")
    back = run("", "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K:")
    assert back == lines


@pytest.mark.parametrize("library", ["kafka-python", "aiokafka"])
@pytest.mark.parametrize("codec", CODECS)
def test_kcat_reads_what_others_wrote(
    run: Kcat, clients: Clients, topic: str, library: str, codec: str
) -> None:
    client = clients[library]
    client.create_topic(topic)
    with client.producer(codec=codec) as producer:
        producer.send(topic, [Record(b"value %d " % n * 50) for n in range(200)])
    back = run(
        "", "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-X", "check.crcs=true"
    )
    assert back.splitlines() == [f"value {n} " * 50 for n in range(200)]


def test_kcat_prints_every_part_of_a_record(run: Kcat, topic: str) -> None:
    run("k:v\n", "-P", "-t", topic, "-p", "0", "-K:", "-H", "a=1", "-H", "b=")
    run("nulls:\n", "-P", "-t", topic, "-p", "0", "-K:", "-Z")
    consume = ["-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"]
    shown = run("", *consume, "-f", "%t/%p/%o key %K %k value %S %s headers %h\n")
    assert shown.splitlines() == [
        f"{topic}/0/0 key 1 k value 1 v headers a=1,b=",
        f"{topic}/0/1 key 5 nulls value -1  headers ",
    ]
    first, second = map(json.loads, run("", *consume, "-J").splitlines())
    assert (first["key"], first["payload"], first["headers"]) == ("k", "v", ["a", "1", "b", ""])
    assert second["payload"] is None
    assert first["tstype"] == "create"


def test_kcat_starts_at_the_given_offset(run: Kcat, topic: str) -> None:
    run("".join(f"{n}\n" for n in range(10)), "-P", "-t", topic, "-p", "0")
    consume = ["-C", "-t", topic, "-p", "0", "-e", "-q"]
    assert run("", *consume, "-o", "7").split() == ["7", "8", "9"]
    assert run("", *consume, "-o", "-2").split() == ["8", "9"]
    assert run("", *consume, "-o", "beginning", "-c", "1").split() == ["0"]
    assert run("", *consume, "-o", "end") == ""


def test_kcat_asks_and_reads_by_time(run: Kcat, clients: Clients, topic: str) -> None:
    client = clients["confluent"]
    client.create_topic(topic)
    with client.producer() as producer:
        producer.send(
            topic, [Record(b"%d" % n, timestamp_ms=BASE_MS + n * 1000) for n in range(10)]
        )
    for at, offset in [(BASE_MS, 0), (BASE_MS + 2500, 3), (BASE_MS + 9000, 9)]:
        assert run("", "-Q", "-t", f"{topic}:0:{at}") == f"{topic} [0] offset {offset}\n"
    consume = ["-C", "-t", topic, "-p", "0", "-q"]
    between = run("", *consume, "-o", f"s@{BASE_MS + 3000}", "-o", f"e@{BASE_MS + 6000}")
    assert between.split() == ["3", "4", "5"]
