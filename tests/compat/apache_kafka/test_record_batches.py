"""Our batches read by Kafka's own reader, and those of Kafka's own writer read by us."""

from pathlib import Path

from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, decode_batch, encode_batch, iter_batches
from tests.support.java import Java

COUNT = 2_000
LEVELS = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 9), Codec.ZSTD: (1, 19)}


def some_records(base_offset: int) -> list[Record]:
    return [
        Record(
            base_offset + i,
            1_700_000_000_000 + i * 37 % 1_000,
            b"key-%d" % i if i % 3 else None,
            b"value %d " % i * (i % 50) if i % 5 else None,
            (("trace", b"%d" % i), ("schlüssel", None)) if i % 4 == 0 else (),
        )
        for i in range(COUNT)
    ]


def test_kafka_reads_every_codec_as_we_write_it_and_we_as_it_does(
    java_client: Java, tmp_path: Path
) -> None:
    given: list[Record] = []
    batches = b""
    for codec in Codec:
        for level in (None, *LEVELS.get(codec, ())):
            records = some_records(base_offset=len(given))
            batches += encode_batch(
                records, codec=codec, base_offset=len(given), level=level, leader_epoch=3
            )
            given += records
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_bytes(batches)

    result = java_client.run("Batches", str(ours), str(theirs))

    assert result.returncode == 0, result.stderr
    assert int(result.stdout) == len(given)
    written = list(iter_batches(theirs.read_bytes()))
    assert {header.attributes for header, _ in written} == set(Codec)
    assert [record for _, batch in written for record in decode_batch(batch)] == given
