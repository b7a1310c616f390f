"""A whole log directory: claim, checkpoint, delete, stop and start."""

from pathlib import Path
from uuid import UUID

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.directory.claim import read_meta
from barnabas.log.directory.opening import open_log_directory
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import Disk
from barnabas.system.disk import SystemDisk
from tests.log.batches import DATA, META, NOW, PARTITION, TOPIC_ID, batch, new_log, open_directory
from tests.simulator.disk import SimulatedDisk

CONFIG = LogConfig(segment_bytes=1500, segment_index_bytes=4096)


def test_a_new_directory_is_claimed(disk: SimulatedDisk) -> None:
    assert read_meta(disk, DATA) is None
    open_directory(disk)
    assert read_meta(disk, DATA) == META
    assert disk.read_file(f"{DATA}/meta.properties") == (
        b"#\ncluster.id=cluster-cluster-cluste\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
        b"node.id=1\nversion=1\n"
    )


def test_the_directory_of_another_broker_is_refused(disk: SimulatedDisk) -> None:
    open_directory(disk)
    for other in (META._replace(node_id=2), META._replace(cluster_id="other")):
        with pytest.raises(KafkaError, match="use another directory"):
            open_log_directory(disk, DATA, meta=other, config_for=lambda topic: CONFIG)
    disk.replace_file(f"{DATA}/meta.properties", b"???")
    with pytest.raises(KafkaError, match="restore or remove it"):
        open_directory(disk)


def test_the_marker_is_there_only_while_the_directory_is_closed(disk: SimulatedDisk) -> None:
    marker = f"{DATA}/.kafka_cleanshutdown"
    directory = open_directory(disk)
    assert not directory.clean
    assert not disk.exists(marker)
    directory.close(broker_epoch=7)
    assert disk.read_file(marker) == b'{"version":0,"brokerEpoch":7}'
    assert open_directory(disk).clean
    assert not disk.exists(marker)
    assert not open_directory(disk).clean


def test_checkpoints_hold_every_log(disk: SimulatedDisk) -> None:
    directory, log = new_log(disk, CONFIG)
    other = directory.create(TopicPartition("orders", 1), TOPIC_ID, CONFIG)
    for _ in range(60):
        log.append(batch(2), 0, NOW)
    log.advance_high_watermark(90)
    log.flush()
    log.delete_before(31)
    directory.checkpoint()
    read = disk.read_file
    assert read(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n2\norders 0 119\norders 1 0\n"
    assert read(f"{DATA}/replication-offset-checkpoint") == b"0\n2\norders 0 90\norders 1 0\n"
    assert read(f"{DATA}/log-start-offset-checkpoint") == b"0\n1\norders 0 31\n"
    assert directory.pending_checkpoint() is None
    other.append(batch(), 0, NOW)
    assert directory.pending_checkpoint() is None
    other.advance_high_watermark(1)
    assert directory.pending_checkpoint() is not None


def test_files_go_only_after_the_new_start_is_on_disk(disk: SimulatedDisk) -> None:
    directory, log = new_log(disk, CONFIG)
    for _ in range(60):
        log.append(batch(2), 0, NOW)
    log.advance_high_watermark(120)
    log.flush()
    first = log.segments[0]
    log.delete_before(100)
    assert log.segments[0] is not first
    assert disk.exists(first.path)
    directory.checkpoint()
    assert not disk.exists(first.path)
    assert open_directory(disk.kill(), CONFIG).logs[PARTITION].start_offset == 100


def test_a_damaged_checkpoint_means_more_to_recover_not_less(disk: SimulatedDisk) -> None:
    directory, log = new_log(disk, CONFIG)
    log.append(batch(3), 0, NOW)
    directory.close()
    disk.remove(f"{DATA}/.kafka_cleanshutdown")
    disk.replace_file(f"{DATA}/recovery-point-offset-checkpoint", b"0\n9\n")
    directory = open_directory(disk, CONFIG)
    assert directory.logs[PARTITION].end_offset == 3
    assert directory.findings[0].action == "ignored"


def test_a_deleted_log_is_renamed_and_to_be_removed_after_a_crash_too(disk: SimulatedDisk) -> None:
    directory, log = new_log(disk, CONFIG)
    log.append(batch(), 0, NOW)
    doomed = directory.delete(PARTITION)
    assert doomed == f"{DATA}/orders-0.{TOPIC_ID.hex}-delete"
    assert PARTITION not in directory.logs
    assert not disk.exists(f"{DATA}/orders-0")
    again = directory.create(PARTITION, UUID(int=5), CONFIG)
    assert again.end_offset == 0
    disk = disk.kill()
    directory = open_directory(disk, CONFIG)  # a crash before the removal
    assert directory.deleted == [doomed]
    assert directory.logs[PARTITION].topic_id == UUID(int=5)


def test_the_longest_topic_name_can_be_deleted(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    longest = TopicPartition("x" * 249, 99999)
    directory.create(longest, TOPIC_ID, CONFIG)
    assert len(directory.delete(longest).rpartition("/")[2]) <= 255


def test_names_that_are_no_partitions_are_left_alone(disk: SimulatedDisk) -> None:
    disk.make_directory(f"{DATA}/lost+found")
    disk.make_directory(f"{DATA}/orders-x")
    assert open_directory(disk).logs == {}


@pytest.mark.parametrize("real", [False, True])
def test_a_file_named_like_a_partition_does_not_stop_the_start(tmp_path: Path, real: bool) -> None:
    disk: Disk = SystemDisk() if real else SimulatedDisk()
    path = str(tmp_path) if real else DATA
    disk.make_directory(path)
    disk.replace_file(f"{path}/backup-1", b"mine")
    directory = open_directory(disk, CONFIG, path)
    assert directory.logs == {}
    assert [(found.path, found.action) for found in directory.findings] == [
        (f"{path}/backup-1", "left alone")
    ]
    with pytest.raises(KafkaError, match="move it elsewhere"):
        directory.create(TopicPartition("backup", 1), TOPIC_ID, CONFIG)
    assert disk.read_file(f"{path}/backup-1") == b"mine"


@pytest.mark.parametrize("name", ["../x", "", ".", "a/b", "x" * 250])
def test_a_topic_name_cannot_leave_the_directory(disk: SimulatedDisk, name: str) -> None:
    directory = open_directory(disk)
    with pytest.raises(KafkaError) as refused:
        directory.create(TopicPartition(name, 0), TOPIC_ID, CONFIG)
    assert refused.value.code == Code.INVALID_TOPIC_EXCEPTION


def test_a_partition_is_created_once(disk: SimulatedDisk) -> None:
    directory, _ = new_log(disk)
    with pytest.raises(KafkaError, match="holds orders-0"):
        directory.create(PARTITION, TOPIC_ID, CONFIG)


def test_many_partitions_on_real_files_come_back(tmp_path: Path) -> None:
    disk, path = SystemDisk(), str(tmp_path / "data")
    directory = open_directory(disk, CONFIG, path)
    for number in range(200):
        log = directory.create(TopicPartition("many", number), TOPIC_ID, CONFIG)
        if number % 10 == 0:
            log.append(batch(3), 0, NOW)
    directory.close()
    directory = open_directory(disk, CONFIG, path)
    assert directory.findings == []
    assert len(directory.logs) == 200
    assert sum(log.end_offset for log in directory.logs.values()) == 60
    directory.close()


@pytest.mark.parametrize("records", [0, 1])
def test_a_log_that_a_power_loss_took_is_missed_only_if_it_had_records(records: int) -> None:
    """The directory of an empty log is not synced: nothing was promised."""
    disk = SimulatedDisk()
    directory, log = new_log(disk)
    if records:
        log.append(batch(), 0, NOW)
        log.advance_high_watermark(log.end_offset)
    directory.checkpoint()
    disk.remove_tree(f"{DATA}/{PARTITION.topic}-{PARTITION.partition}")
    assert bool(open_directory(disk).incomplete) == bool(records)
