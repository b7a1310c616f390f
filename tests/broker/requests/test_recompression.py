"""compression.type of a topic: batches are stored in its codec, at their offsets, in order."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.model.errors import Code
from barnabas.wire.batch import CODEC_MASK, HEADER_SIZE, read_header, write_header
from barnabas.wire.compression import Codec
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, decode_batch, encode_batch, iter_batches
from tests.broker.running import Running, running_broker

NOW = 1_700_000_000_000


def batch(text: str, codec: Codec, **options: Any) -> bytearray:
    records = [Record(n, NOW + n, b"k%d" % n, f"{text}-{n}".encode() * 50) for n in range(5)]
    return encode_batch(records, codec=codec, **options)


async def produce(running: Running, data: bytes, acks: int = 1) -> PartitionProduceResponse:
    request = ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=data)])
        ],
    )
    answer = await running.ask(request, ProduceResponse, 9)
    return answer.responses[0].partition_responses[0]


def stored(running: Running) -> list[tuple[Codec, int, list[bytes | None]]]:
    log = running.broker.topics.existing("t").partition(0).log
    found = log.read(0, 1 << 20, log.end_offset).file_slice
    if found is None:
        return []
    data = found.file.read(found.position, found.length)
    return [
        (
            Codec(header.attributes & CODEC_MASK),
            header.base_offset,
            [r.value for r in decode_batch(b)],
        )
        for header, b in iter_batches(data)
    ]


@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
async def test_every_codec_becomes_the_topics(wanted: str, tmp_path: Path) -> None:
    codec = Codec.NONE if wanted == "uncompressed" else Codec.named(wanted)
    async with running_broker(tmp_path) as running:
        await running.create("t", configs={"compression.type": wanted})
        for number, sent in enumerate(Codec):
            answer = await produce(running, bytes(batch(sent.name, sent)))
            assert (answer.error_code, answer.base_offset) == (0, number * 5)
        assert [(kind, base) for kind, base, _ in stored(running)] == [
            (codec, number * 5) for number in range(5)
        ]
        assert [values[0] for _, _, values in stored(running)] == [
            f"{sent.name}-0".encode() * 50 for sent in Codec
        ]


async def test_what_does_not_unpack_is_refused_and_nothing_else(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t", configs={"compression.type": "lz4"})
        torn = batch("a", Codec.ZSTD)
        torn[HEADER_SIZE + 10 :] = bytes(len(torn) - HEADER_SIZE - 10)
        write_header(torn, read_header(torn))  # so that the checksum fits
        assert (await produce(running, bytes(torn))).error_code == Code.CORRUPT_MESSAGE
        flipped = batch("b", Codec.ZSTD)
        flipped[-1] ^= 1
        assert (await produce(running, bytes(flipped))).error_code == Code.CORRUPT_MESSAGE
        assert (await produce(running, bytes(batch("c", Codec.ZSTD)))).base_offset == 0


async def test_a_repeat_is_still_a_repeat(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t", configs={"compression.type": "gzip"})
        data = bytes(batch("a", Codec.LZ4, producer_id=5, producer_epoch=0, base_sequence=0))
        assert (await produce(running, data)).base_offset == 0
        assert (await produce(running, data)).base_offset == 0
        assert len(stored(running)) == 1


async def test_the_codec_of_a_topic_may_change_and_the_producers_is_kept_again(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t", configs={"compression.type": "gzip"})
        await produce(running, bytes(batch("a", Codec.LZ4)))
        topic = running.broker.topics.existing("t")
        await running.broker.catalog.configure_topic(topic, lambda _: {})
        await produce(running, bytes(batch("b", Codec.LZ4)))
        assert [kind for kind, _, _ in stored(running)] == [Codec.GZIP, Codec.LZ4]
