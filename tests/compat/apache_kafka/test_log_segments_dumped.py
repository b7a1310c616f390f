"""Kafka's own tool reads our files, to the last record and index entry."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.log import Log
from barnabas.system.disk import SystemDisk
from barnabas.wire.compression import Codec
from tests.log.batches import NOW, batch, new_log
from tests.support.java import Java

TOOL = "org.apache.kafka.tools.DumpLogSegments"
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500, segment_index_bytes=1 << 16)


@pytest.fixture(scope="module")
def java(kafka_lib: Path) -> Java:
    return Java(f"{kafka_lib}/*")


@pytest.fixture(params=["CreateTime", "LogAppendTime"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A closed partition with several segments, producers, codecs and epochs."""
    config = CONFIG
    if request.param == "LogAppendTime":
        config = replace(CONFIG, timestamp_type="append")
    directory, log = new_log(SystemDisk(), config, path=str(tmp_path / "data"))
    _fill(log, Random(11))
    assert len(log.segments) > 3
    directory.close()
    return Path(log.path)


def _fill(log: Log, rng: Random) -> None:
    sequences = [0] * 3
    for number in range(300):
        producer, count = rng.randrange(3), rng.randint(1, 6)
        data = batch(
            count,
            size=rng.choice((5, 80, 600)),
            time=NOW + number * 10 + rng.randint(-40, 40),
            producer=producer,
            sequence=sequences[producer],
            codec=rng.choice(list(Codec)),
        )
        sequences[producer] += count
        log.append(data, number // 100, NOW + number)


def _dump(java: Java, home: Path, suffixes: tuple[str, ...], *options: str) -> str:
    files = ",".join(str(path) for path in sorted(home.iterdir()) if path.suffix in suffixes)
    done = java.run(TOOL, *options, "--files", files)
    # The tool starts each file at offset -1 and so finds a gap before every later segment.
    complaints = [
        line
        for line in done.stderr.splitlines()
        if line.strip()
        and not line.startswith(("SLF4J", "Non-consecutive offsets"))
        and not line.strip().startswith("-1 is followed by")
    ]
    assert done.returncode == 0, done.stderr
    assert complaints == []
    return done.stdout


def test_every_record_is_read(java: Java, home: Path) -> None:
    out = _dump(java, home, (".log",), "--deep-iteration")
    offsets = [int(line.split()[2]) for line in out.splitlines() if line.startswith("| offset:")]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) > 900
    assert "isvalid: false" not in out


def test_indexes_agree_with_the_records(java: Java, home: Path) -> None:
    out = _dump(java, home, (".index", ".timeindex"), "--verify-index-only")
    assert "Dumping" in out
    _dump(java, home, (".index", ".timeindex"))


def test_indexes_pass_the_sanity_check(java: Java, home: Path) -> None:
    out = _dump(java, home, (".index", ".timeindex"), "--index-sanity-check")
    assert out.count("passed sanity check") == len(list(home.glob("*index")))


def test_snapshots_are_read(java: Java, home: Path) -> None:
    out = _dump(java, home, (".snapshot",))
    last = out.split("Dumping")[-1]
    assert {f"producerId: {producer} " in last for producer in range(3)} == {True}
