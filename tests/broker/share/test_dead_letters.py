"""Records of share groups that fail: dead letters, and backoff."""

import asyncio
from pathlib import Path

import pytest

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.partition import Partition
from barnabas.broker.share import dead_letters, partitions
from barnabas.client.workers.dead_letter_headers import trail_in
from barnabas.model.errors import Code, Retriable
from barnabas.wire.compression import Codec
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, decode_batch, encode_batch, iter_batches
from tests.broker.running import Running
from tests.broker.share.member import GROUP, Member, share_broker
from tests.broker.share.test_session_ends import service_of, until

ACCEPT, RELEASE, REJECT = 1, 2, 3
GROUPS = 32


async def configure(broker: Running, **options: str) -> None:
    resource = AlterConfigsResource(
        resource_type=GROUPS,
        resource_name=GROUP,
        configs=[
            AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
            for name, value in options.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    response = await broker.ask(request, IncrementalAlterConfigsResponse)
    assert not response.responses[0].error_code, response.responses[0].error_message


def letters(broker: Running, topic: str) -> list[Record]:
    log = broker.broker.topics.existing(topic).partition(0).log
    found = log.read(0, 1 << 24, log.high_watermark).file_slice
    assert found is not None
    return [
        record
        for header, batch in iter_batches(found.file.read(found.position, found.length))
        for record in decode_batch(batch, header=header)
    ]


async def test_a_rejected_record_is_in_the_dead_letter_topic_when_that_is_confirmed(
    tmp_path: Path,
) -> None:
    """As a letter of a worker, so that `barnabas dlq` shows and redrives it."""
    async with share_broker(tmp_path, 20) as (broker, topic):
        await configure(
            broker,
            errors_deadletterqueue_topic_name="dlq.jobs",
            errors_deadletterqueue_copy_record_enable="true",
        )
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        assert await member.accept(3, 4, REJECT) is Code.NONE
        found = letters(broker, "dlq.jobs")
        assert [(record.key, record.value) for record in found] == [(b"key", b"value")] * 2
        trails = [trail_in(record.headers) for record in found]
        assert [trail and (trail.group, str(trail.origin), trail.attempts) for trail in trails] == [
            (GROUP, "jobs:0:3", 1),
            (GROUP, "jobs:0:4", 1),
        ]
        assert trails[0] is not None
        assert trails[0].cause == "rejected by member m1"


async def test_without_copies_a_letter_has_headers_only(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        await configure(broker, errors_deadletterqueue_topic_name="dlq.jobs")
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        assert await member.accept(0, 0, REJECT) is Code.NONE
        (letter,) = letters(broker, "dlq.jobs")
        assert (letter.key, letter.value) == (None, None)
        assert trail_in(letter.headers) is not None


async def produce_values(broker: Running, *sizes: int, codec: Codec = Codec.NONE) -> None:
    """One batch with a record of each size."""
    records = [Record(n, 0, b"key", b"x" * size, ()) for n, size in enumerate(sizes)]
    batch = memoryview(encode_batch(records, codec=codec))
    data = TopicProduceData(
        name="jobs", partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[data])
    response = await broker.ask(request, ProduceResponse, 12)
    assert not response.responses[0].partition_responses[0].error_code


COPIES = {
    "errors_deadletterqueue_topic_name": "dlq.jobs",
    "errors_deadletterqueue_copy_record_enable": "true",
}


async def test_the_letters_of_large_records_are_written_in_several_batches(tmp_path: Path) -> None:
    """A single batch of them would be larger than max.message.bytes."""
    async with share_broker(tmp_path, 0) as (broker, topic):
        await configure(broker, **COPIES)
        await produce_values(broker, *[100_000] * 24, codec=Codec.GZIP)
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        assert await member.accept(0, 23, REJECT) is Code.NONE
        values = [len(letter.value or b"") for letter in letters(broker, "dlq.jobs")]
        assert values == [100_000] * 24
        assert service_of(broker).dead_letters == 24


async def test_a_record_that_is_too_large_for_the_dead_letter_topic_leaves_its_headers(
    tmp_path: Path,
) -> None:
    async with share_broker(tmp_path, 0) as (broker, topic):
        await configure(broker, **COPIES)
        await produce_values(broker, 3_000_000, 10, codec=Codec.GZIP)
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        assert await member.accept(0, 1, REJECT) is Code.NONE
        large, small = letters(broker, "dlq.jobs")
        assert (large.value, dict(large.headers)["barnabas.cut"]) == (None, b"3000003")
        assert "barnabas.no-record" in dict(large.headers)
        assert trail_in(large.headers) is not None
        assert small.value == b"x" * 10


async def test_a_letter_waits_for_the_leader_of_its_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a further attempt, the record would be archived without a letter."""
    async with share_broker(tmp_path) as (broker, topic):
        await configure(broker, **COPIES)
        await broker.create("dlq.jobs")
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        partition = broker.broker.topics.existing("dlq.jobs").partition(0)
        refusals = 0
        append = Partition.append

        def refuses(self: Partition, *given: object, **options: object) -> object:
            nonlocal refusals
            if self is partition and not refusals:
                refusals += 1
                raise Retriable(Code.NOT_LEADER_OR_FOLLOWER, "another broker leads it")
            return append(self, *given, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(Partition, "append", refuses)
        assert await member.accept(0, 0, REJECT) is Code.NONE
        assert (refusals, len(letters(broker, "dlq.jobs"))) == (1, 1)
        assert not service_of(broker).dead_letters_failed


async def test_letters_are_written_of_the_records_that_are_still_in_the_log(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        await configure(broker, **COPIES)
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        broker.broker.topics.existing("jobs").partition(0).log.delete_before(15)
        assert await member.accept(10, 19, REJECT) is Code.NONE
        assert len(letters(broker, "dlq.jobs")) == 5


async def test_a_share_partition_that_was_dropped_while_its_letters_were_written_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state may be another one by then."""
    async with share_broker(tmp_path) as (broker, topic):
        await configure(broker, **COPIES)
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        letters_written: DeferredReply[None] = DeferredReply()
        monkeypatch.setattr(partitions, "write_letters", lambda *_: letters_written)
        rejecting = member.send((0, 4, REJECT))
        (share,) = service_of(broker).partitions
        assert share.machine is not None
        machine = share.machine
        await until(lambda: machine.statistics.counts["rejected"])
        share.drop()
        letters_written.set(None)
        assert (await member.receive(rejecting)).ack is Code.NOT_LEADER_OR_FOLLOWER
        assert (await member.fetch(wait_ms=5_000)).acquired == [(0, 9, 1)]


async def test_a_topic_is_not_the_dead_letter_topic_of_its_own_records(tmp_path: Path) -> None:
    """Each letter would be delivered, and be the next dead record, for ever."""
    async with share_broker(tmp_path) as (broker, topic):
        await configure(broker, errors_deadletterqueue_topic_name="jobs")
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        assert await member.accept(0, 9, REJECT) is Code.NONE
        assert broker.broker.topics.existing("jobs").partition(0).log.end_offset == 10
        assert service_of(broker).dead_letters_failed == 10


async def test_records_without_a_letter_are_counted_and_named_whatever_the_error_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are archived: nothing else would say that they are gone."""
    async with share_broker(tmp_path) as (broker, topic):
        await configure(broker, **COPIES)
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)

        def fails(*_: object, **__: object) -> list[Record]:
            raise ValueError("a bug")

        monkeypatch.setattr(dead_letters, "decode_batch", fails)
        assert await member.accept(3, 5, REJECT) is Code.NONE
        service = service_of(broker)
        assert (service.dead_letters, service.dead_letters_failed) == (0, 3)
        (line,) = [
            each
            for each in broker.log.getvalue().splitlines()
            if "dead letters not written" in each
        ]
        for part in ('"first": 3', '"last": 5', "jobs-0", "dlq.jobs", "a bug"):
            assert part in line
        await until(lambda: broker.broker.counts.failures == 1)


@pytest.mark.parametrize("name", ["../../elsewhere", "__consumer_offsets", "a b", "x" * 250])
async def test_a_dead_letter_topic_has_a_name_that_clients_may_write_to(
    tmp_path: Path, name: str
) -> None:
    async with share_broker(tmp_path) as (broker, _):
        with pytest.raises(AssertionError, match=r"deadletterqueue\.topic\.name"):
            await configure(broker, errors_deadletterqueue_topic_name=name)


async def test_a_released_record_comes_again_after_its_backoff(tmp_path: Path) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        await configure(broker, barnabas_share_release_backoff_ms="300")
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        released = asyncio.get_running_loop().time()
        assert await member.accept(0, 9, RELEASE) is Code.NONE
        assert (await member.fetch(wait_ms=20)).acquired == []
        assert (await member.fetch(wait_ms=10_000)).acquired == [(0, 9, 2)]
        assert asyncio.get_running_loop().time() - released >= 0.3
