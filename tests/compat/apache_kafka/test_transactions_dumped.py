"""Kafka's own tool reads our markers, aborted and open transactions, and their state."""

import re
from pathlib import Path
from random import Random

import pytest

from barnabas.coordinators.transactions.records import TransactionRecord, encode
from barnabas.system.disk import SystemDisk
from barnabas.wire.batch import read_header
from barnabas.wire.records import batch_of
from tests.coordinators.transactions.test_records import ID, WRITTEN_BY_KAFKA
from tests.log.batches import NOW, SMALL, new_log
from tests.log.transactions.test_append import Writer, aborted
from tests.support.java import Java

TOOL = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture(scope="module")
def java(kafka_lib: Path) -> Java:
    return Java(f"{kafka_lib}/*")


def dump(java: Java, home: Path, suffix: str, *options: str) -> str:
    files = ",".join(str(path) for path in sorted(home.iterdir()) if path.suffix == suffix)
    assert files
    done = java.run(TOOL, *options, "--files", files)
    assert done.returncode == 0, done.stderr
    assert "Exception" not in done.stdout + done.stderr
    return done.stdout


def test_kafka_finds_the_transactions_of_our_log(java: Java, tmp_path: Path) -> None:
    directory, log = new_log(SystemDisk(), SMALL, path=str(tmp_path / "data"))
    writer = Writer(log, Random(3))
    for _ in range(200):
        writer.step()
    expected = aborted(log)
    open_ = {
        state.producer_id: state.transaction_start
        for state in log.producers.entries.values()
        if state.transaction_start >= 0
    }
    end = log.end_offset
    assert expected
    assert open_
    directory.close()
    home = Path(log.path)

    index = dump(java, home, ".txnindex")
    found = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset", index)
    assert [(int(producer), int(first)) for producer, first in found] == expected

    said = dump(java, home, ".log", "--deep-iteration")
    assert said.count("endTxnMarker: ABORT") >= len(expected)
    assert said.count("endTxnMarker: COMMIT") > 0
    assert "isvalid: false" not in said

    snapshot = home / f"{end:020d}.snapshot"
    done = java.run(TOOL, "--files", str(snapshot))
    pattern = r"producerId: (\d+) .*currentTxnFirstOffset: OptionalLong(?:\.empty|\[(\d+)\]) "
    last = dict(re.findall(pattern, done.stdout))  # the last entry of a producer counts
    assert {int(producer): int(first) for producer, first in last.items() if first} == open_


def test_kafka_decodes_our_state_of_transactions(java: Java, tmp_path: Path) -> None:
    directory, log = new_log(SystemDisk(), path=str(tmp_path / "data"))
    for transaction, version, _ in WRITTEN_BY_KAFKA:
        batch = batch_of([encode(TransactionRecord(ID, transaction), version)], NOW)
        assert read_header(batch).record_count == 1
        log.append(memoryview(batch), 0, NOW, ours=True)
    tombstone = batch_of([encode(TransactionRecord(ID, None), 0)], NOW)
    log.append(memoryview(tombstone), 0, NOW, ours=True)
    directory.close()
    said = dump(java, Path(log.path), ".log", "--transaction-log-decoder")
    assert said.count(ID) == len(WRITTEN_BY_KAFKA) + 1
    for number in ('"producerId":4000', '"nextProducerId":5000', '"transactionStatus":4'):
        assert number in said.replace(" ", ""), said
