"""The small text files, as Kafka writes them."""

from uuid import UUID

import pytest

from barnabas.log.directory.checkpoints import (
    CorruptCheckpoint,
    MetaProperties,
    decode_epochs,
    decode_meta,
    decode_offsets,
    decode_topic_id,
    encode_epochs,
    encode_meta,
    encode_offsets,
    encode_topic_id,
)
from barnabas.model.ids import TopicPartition

OFFSETS = {TopicPartition("a", 0): 5, TopicPartition("b-c", 12): 2**40}
TOPIC_ID = UUID("e8f1a2b3-c4d5-4e6f-8a9b-0c1d2e3f4a5b")


def test_offsets_read_as_kafka_writes_them() -> None:
    data = b"0\n2\na 0 5\nb-c 12 1099511627776\n"
    assert encode_offsets(OFFSETS.items()) == data
    assert decode_offsets(data) == OFFSETS
    assert decode_offsets(encode_offsets([])) == {}


def test_epochs_read_as_kafka_writes_them() -> None:
    assert encode_epochs([(0, 0), (3, 17)]) == b"0\n2\n0 0\n3 17\n"
    assert decode_epochs(b"0\n2\n0 0\n3 17\n") == [(0, 0), (3, 17)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\na 0 5\n",
        b"0\n1\na 0\n",
        b"0\nx\n",
        b"0\n1\na 0 y\n",
        b"\xff\n",
    ],
)
def test_a_damaged_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode_offsets(data)


def test_a_topic_id_goes_through_its_file() -> None:
    data = encode_topic_id(TOPIC_ID)
    assert data == b"version: 0\ntopic_id: 6PGis8TVTm-KmwwdLj9KWw"
    assert decode_topic_id(data) == TOPIC_ID
    for bad in (b"", data[:-3], b"version: 1\n" + data[11:], b"version: 0\ntopic_id: \x00\x00"):
        with pytest.raises(CorruptCheckpoint):
            decode_topic_id(bad)


def test_meta_properties_read_as_kafka_writes_them() -> None:
    meta = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 4, "6PGis8TVTm-KmwwdLj9KWw")
    assert decode_meta(encode_meta(meta)) == meta
    kafkas = b"#\n#Fri May 09\ncluster.id=abc\\=\\=\nversion=1\ndirectory.id=x\nnode.id=4\n"
    assert decode_meta(kafkas) == MetaProperties("abc==", 4, "x")
    with pytest.raises(CorruptCheckpoint):
        decode_meta(b"version=1\n")
