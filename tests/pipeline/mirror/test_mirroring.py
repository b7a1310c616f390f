"""Two clusters and a mirror between them; no Spark."""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from barnabas.client.blocking.admin import Admin
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.model.ids import TopicPartition as At
from barnabas.pipeline.errors import DataLoss, PipelineError
from barnabas.pipeline.mirror import mirroring
from barnabas.pipeline.mirror.copying import CopyTask, copy_range
from barnabas.pipeline.mirror.mirroring import Mirroring, Round, mirror
from barnabas.pipeline.mirror.translation import Copied
from barnabas.pipeline.spark import brokers as clusters
from tests.process import BrokerProcess, running_broker
from tests.waiting import WAIT_S

pytestmark = pytest.mark.slow

Rows = list[tuple[object, ...]]
FIRST_MS = int(time.time() * 1000) - 86_400_000  # not so old that the broker deletes them


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("other")) as running:
        yield running


@pytest.fixture(autouse=True)
def _forget_clusters() -> Iterator[None]:
    yield
    for cluster in clusters._opened.values():
        cluster.close()
    clusters._opened.clear()


def client(broker: BrokerProcess) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


def produce(broker: BrokerProcess, topic: str, numbers: Iterable[int], codec: str = "none") -> None:
    producer = Producer({**client(broker), "compression.type": codec, "linger.ms": 2})
    for n in numbers:
        producer.produce(
            topic,
            b"value %d" % n,
            key=b"key %d" % n,
            partition=n % 2,
            headers=[("n", b"%d" % n)],
            timestamp=FIRST_MS + n,
        )
    assert producer.flush(WAIT_S) == 0


def rows(broker: BrokerProcess, topic: str, start: int = 0) -> Rows:
    """All of both partitions from an offset on."""
    consumer = Consumer({**client(broker), "group.id": "reader", "enable.partition.eof": True})
    found: Rows = []
    try:
        consumer.assign([TopicPartition(topic, n, start) for n in range(2)])
        ended = 0
        while ended < 2:
            message = consumer.poll(WAIT_S)
            assert message is not None
            if message.error():
                ended += 1
                continue
            found.append(
                (message.partition(), message.offset(), message.timestamp(), message.key(),
                 message.value(), message.headers())
            )  # fmt: skip
    finally:
        consumer.close()
    return sorted(found)


def without_offsets(found: Rows) -> list[tuple[object, ...]]:
    """In the target, the ends of transactions have offsets too."""
    return [(partition, *rest) for partition, _, *rest in found]


def copied(broker: BrokerProcess, other: BrokerProcess, topic: str) -> Round:
    return mirror(client(broker), client(other), name=f"mirror-{topic}", topics=[topic])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_options_and_partitions_are_as_in_the_source(
    broker: BrokerProcess, other: BrokerProcess, topic: str, codec: str
) -> None:
    with Admin(client(broker)) as admin:
        admin.create_topic(topic, partitions=2, configs={"retention.ms": "86400000000"})
    produce(broker, topic, range(500), codec)
    done = copied(broker, other, topic)
    assert (done.records, done.created, done.behind) == (500, [topic], 0)
    assert rows(other, topic) == rows(broker, topic)
    with Admin(client(other)) as admin:
        set_ = {o.name: o.value for o in admin.topic_options(topic) if o.source == 1}
    assert set_ == {"retention.ms": "86400000000"}


def test_a_table_of_the_source_is_none_of_the_target(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    """`lake.offsets` are offsets of one cluster: in the other one, retention would delete by them
    what its own table does not have.
    """
    asked = {"lake": "delta", "lake.retention.wait": "true"}
    with Admin(client(broker)) as here, Admin(client(other)) as there:
        here.create_topic(topic, partitions=1, configs={**asked, "lake.offsets": "0:1000"})
        copied(broker, other, topic)
        assert not [each for each in there.topic_options(topic) if each.name in asked]
        there.alter_topic(topic, put={**asked, "lake.offsets": "0:5"})
        copied(broker, other, topic)
        found = {each.name: each.value for each in there.topic_options(topic)}
    assert found["lake.offsets"] == "0:5"


def test_options_are_compared_from_time_to_time_not_in_each_round(
    broker: BrokerProcess, other: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def retention() -> str | None:
        with Admin(client(other)) as admin:
            return {each.name: each.value for each in admin.topic_options(topic)}["retention.ms"]

    with Admin(client(broker)) as admin:
        admin.create_topic(topic, partitions=1, configs={"retention.ms": "86400000001"})
        one = Mirroring(client(broker), client(other), name=topic, topics=[topic])
        one.round()
        one.round()
        admin.alter_topic(topic, put={"retention.ms": "86400000002"})
        one.round()
        assert retention() == "86400000001"
        monkeypatch.setattr(mirroring, "OPTIONS_EVERY_S", 0.0)
        one.round()
        assert retention() == "86400000002"


def test_a_mirror_goes_on_where_it_stopped_and_finds_new_partitions(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    with Admin(client(broker)) as admin:
        admin.create_topic(topic, partitions=1)
        produce(broker, topic, range(0, 100, 2))
        assert copied(broker, other, topic).records == 50
        admin.create_partitions(topic, 2)
    produce(broker, topic, range(100, 200))
    assert copied(broker, other, topic).records == 100
    assert copied(broker, other, topic).records == 0
    assert without_offsets(rows(other, topic)) == without_offsets(rows(broker, topic))


def test_a_round_that_was_not_noted_is_copied_again_and_nothing_is_lost(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    with Admin(client(broker)) as admin:
        admin.create_topic(topic, partitions=2)
        produce(broker, topic, range(100))
        copied(broker, other, topic)
        produce(broker, topic, range(100, 200))

        def die(tasks: Sequence[CopyTask]) -> Iterable[Copied]:
            for task in tasks:
                copy_range(task)
            raise KeyboardInterrupt

        one = Mirroring(client(broker), client(other), name=f"mirror-{topic}", topics=[topic])
        with pytest.raises(KeyboardInterrupt):
            one.round(die)
        admin.alter_group_offsets(f"readers-{topic}", {At(topic, 0): Committed(75)})
        assert copied(broker, other, topic).records == 100
    values = {row[4] for row in rows(other, topic)}
    assert values == {b"value %d" % n for n in range(200)}
    with Admin(client(other)) as admin:
        moved = admin.group_offsets(f"readers-{topic}")[At(topic, 0)].offset
    after = {row[4] for row in rows(other, topic, moved) if row[0] == 0}
    assert {b"value %d" % (2 * n) for n in range(75, 100)} <= after


def test_groups_go_on_in_the_target_where_they_stopped(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    group = f"readers-{topic}"
    with Admin(client(broker)) as admin, Admin(client(other)) as target:
        admin.create_topic(topic, partitions=2)
        produce(broker, topic, range(100))
        admin.delete_records({At(topic, 0): 20})
        admin.alter_group_offsets(
            group, {At(topic, 0): Committed(33, metadata="x"), At(topic, 1): Committed(7)}
        )
        copied(broker, other, topic)
        # The first 20 are not there to be copied, though their batch still is.
        moved = target.group_offsets(group)
        assert moved == {At(topic, 0): Committed(13, metadata="x"), At(topic, 1): Committed(7)}
        source = [row for row in rows(broker, topic, 20) if row[0] == 0]
        assert [r[2:] for r in rows(other, topic) if r[0] == 0] == [r[2:] for r in source]
        # Back it goes only in the source.
        admin.alter_group_offsets(group, {At(topic, 0): Committed(25)})
        copied(broker, other, topic)
        assert target.group_offsets(group)[At(topic, 0)].offset == 13
        # The mirror itself is a group of the source: all is read.
        lag = admin.group_offsets(f"mirror-{topic}")
        assert {at.partition: each.offset for at, each in lag.items()} == {0: 50, 1: 50}


@pytest.mark.parametrize("identical", [False, True])
def test_what_is_written_while_a_round_copies_is_left_to_the_next(
    broker: BrokerProcess, other: BrokerProcess, topic: str, identical: bool
) -> None:
    """A leader's answer has more than the round was planned for."""
    with Admin(client(broker)) as admin:
        admin.create_topic(topic, partitions=2)
    produce(broker, topic, range(100))

    def late(tasks: Sequence[CopyTask]) -> Iterable[Copied]:
        produce(broker, topic, range(100, 150))
        return [copy_range(task) for task in tasks]

    one = Mirroring(client(broker), client(other), name=topic, topics=[topic], identical=identical)
    assert one.round(late).records == 100
    assert one.round().records == 50
    assert without_offsets(rows(other, topic)) == without_offsets(rows(broker, topic))
    if identical:
        assert rows(other, topic) == rows(broker, topic)


def test_small_shares_are_copied_round_by_round(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    with Admin(client(broker)) as admin:
        admin.create_topic(topic, partitions=2)
    for n in range(0, 100, 10):
        produce(broker, topic, range(n, n + 10))
    one = Mirroring(client(broker), client(other), name=topic, topics=[topic], bytes_max=1)
    first = one.round()
    assert 0 < first.records < 100
    assert first.behind > 0
    while one.round().behind:
        pass
    assert without_offsets(rows(other, topic)) == without_offsets(rows(broker, topic))


def test_a_topic_that_was_created_again_is_not_taken_for_the_one_before(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    with Admin(client(broker)) as admin, Admin(client(other)) as target:
        admin.create_topic(topic, partitions=2)
        produce(broker, topic, range(10))
        copied(broker, other, topic)
        # Deleted in the target, by a user who wants it copied once more.
        target.delete_topic(topic)
        produce(broker, topic, range(10, 20))
        assert copied(broker, other, topic).records == 20
        assert rows(other, topic) == rows(broker, topic)
        # Deleted in the source: it has as many records again, and none of them is in the target.
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=2)
        produce(broker, topic, range(100, 130))
        with pytest.raises(
            DataLoss, match="was deleted and created again in the source: delete it"
        ):
            copied(broker, other, topic)
        target.delete_topic(topic)
        assert copied(broker, other, topic).records == 30
        assert copied(broker, other, topic).records == 0
        assert rows(other, topic) == rows(broker, topic)


def test_times_that_the_broker_gave_are_kept(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    with Admin(client(broker)) as admin:
        options = {"message.timestamp.type": "LogAppendTime"}
        admin.create_topic(topic, partitions=2, configs=options)
    produce(broker, topic, range(10), "gzip")
    copied(broker, other, topic)
    assert [r[2][1] for r in rows(other, topic)] == [r[2][1] for r in rows(broker, topic)]  # type: ignore[index]


def test_a_topic_does_not_go_back_to_where_it_came_from(
    broker: BrokerProcess, other: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    with Admin(client(broker)) as admin:
        admin.create_topic(topic, partitions=2)
    produce(broker, topic, range(10))
    copied(broker, other, topic)
    with pytest.raises(PipelineError, match="came to the source from the target"):
        copied(other, broker, topic)
    with running_broker(tmp_path / "third") as third:
        copied(other, third, topic)
        with pytest.raises(PipelineError, match="came to the source from the target"):
            copied(third, broker, topic)
        assert rows(third, topic) == rows(broker, topic)


def test_a_cluster_is_no_mirror_of_itself(broker: BrokerProcess, topic: str) -> None:
    with pytest.raises(PipelineError, match="the same cluster"):
        copied(broker, broker, topic)


def test_a_topic_that_is_not_there_is_one_line(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    with pytest.raises(PipelineError, match="does not exist in the source"):
        copied(broker, other, topic)


def same(broker: BrokerProcess, other: BrokerProcess, topic: str) -> Round:
    options = {"name": f"mirror-{topic}", "topics": [topic], "identical": True}
    return mirror(client(broker), client(other), **options)  # type: ignore[arg-type]


def test_identical_offsets_are_kept_though_the_source_begins_late(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    with Admin(client(broker)) as admin, Admin(client(other)) as target:
        admin.create_topic(topic, partitions=2)
        produce(broker, topic, range(200))
        admin.delete_records({At(topic, 0): 30, At(topic, 1): 100})
        assert same(broker, other, topic).records == 70
        assert rows(other, topic, OFFSET_BEGINNING) == rows(broker, topic, OFFSET_BEGINNING)
        firsts = target.offsets(dict.fromkeys([At(topic, 0), At(topic, 1)], -2))
        assert [each.offset for each in firsts.values()] == [30, 100]
        # Groups need no translation, and are not sent past what is there.
        produce(broker, topic, range(200, 260), "zstd")
        admin.alter_group_offsets(
            f"readers-{topic}", {At(topic, 0): Committed(40), At(topic, 1): Committed(130)}
        )
        assert same(broker, other, topic).records == 60
        assert same(broker, other, topic).records == 0
        assert rows(other, topic, OFFSET_BEGINNING) == rows(broker, topic, OFFSET_BEGINNING)
        moved = target.group_offsets(f"readers-{topic}")
        assert {at.partition: each.offset for at, each in moved.items()} == {0: 40, 1: 130}


def test_identical_offsets_hold_though_an_older_task_is_still_writing(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    """The round before was killed, but its tasks live; they and the next round write together."""
    with Admin(client(broker)) as admin:
        admin.create_topic(topic, partitions=2)
    late: list[CopyTask] = []

    def die(tasks: Sequence[CopyTask]) -> Iterable[Copied]:
        late.extend(tasks)
        raise KeyboardInterrupt

    for begin in range(0, 300, 30):
        produce(broker, topic, range(begin, begin + 30))
    one = Mirroring(
        client(broker), client(other), name=topic, topics=[topic], identical=True, bytes_max=1
    )
    with pytest.raises(KeyboardInterrupt):
        one.round(die)
    for _ in range(7):
        one.round()
    for task in late:  # of the very beginning, which the broker has forgotten by now
        assert copy_range(task).position == 0
    assert same(broker, other, topic).behind == 0
    for task in late:
        copy_range(task)
    assert rows(other, topic) == rows(broker, topic)


def test_identical_offsets_are_refused_where_they_cannot_be(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    with Admin(client(broker)) as admin, Admin(client(other)) as target:
        compacted, taken = f"{topic}-compacted", f"{topic}-taken"
        admin.create_topic(compacted, configs={"cleanup.policy": "compact"})
        with pytest.raises(PipelineError, match=r"is compacted: .* sink\.offsets: translated"):
            same(broker, other, compacted)
        assert compacted not in target.topics().topics
        for where in (admin, target):
            where.create_topic(taken, partitions=2)
        produce(broker, taken, range(4))
        produce(other, taken, range(2))
        with pytest.raises(PipelineError, match="is not empty in the target"):
            same(broker, other, taken)
        # One way or the other, but not both.
        admin.create_topic(topic, partitions=2)
        produce(broker, topic, range(10))
        same(broker, other, topic)
        with pytest.raises(PipelineError, match="was mirrored with identical offsets"):
            copied(broker, other, topic)
        # Somebody else writes to the target.
        produce(other, topic, range(2))
        with pytest.raises(PipelineError, match="was the topic recreated, or written to"):
            same(broker, other, topic)
        produce(broker, topic, range(10, 20))
        with pytest.raises(PipelineError, match="another program may have written to it"):
            same(broker, other, topic)
