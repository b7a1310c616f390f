"""Bad rows in their topics: once, also with two drivers; with the time of writing; of any size."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.client.blocking.admin import Admin
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.workers import dead_letter_headers as header_names
from barnabas.model.ids import TopicPartition as At
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.bad_row_producer import BadRow, BadRowProducer, fitted
from barnabas.pipeline.run.dead_letter_topics import ensure_letter_topics, letter_size
from barnabas.pipeline.run.spec import parse
from barnabas.pipeline.spark import brokers as clusters
from barnabas.pipeline.spark.batch_identity import BatchIdentity, overlaps
from tests.process import BrokerProcess
from tests.waiting import WAIT_S

IDS = {"orders": "11111111-1111-1111-1111-111111111111"}


@pytest.fixture(autouse=True)
def _forget_clusters() -> Iterator[None]:
    yield
    for cluster in clusters._opened.values():
        cluster.close()
    clusters._opened.clear()


def create(broker: BrokerProcess, *topics: str) -> None:
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        for topic in topics:
            admin.create_topic(topic, partitions=1)


def batch(topic: str, number: int, start: int, end: int) -> BatchIdentity:
    at = At(topic, 0)
    return BatchIdentity("q", number, {at: start}, {at: end}, {topic: IDS["orders"]})


def rows(topic: str, count: int) -> list[BadRow]:
    return [BadRow(topic, b"k", b"%d" % number, (("h", b"v"),)) for number in range(count)]


def driver(broker: BrokerProcess, topic: str, limit: int = 1_048_588) -> BadRowProducer:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    return BadRowProducer(client, "q", topic, f"{topic}.dlq", {f"{topic}.dlq": limit})


def read(broker: BrokerProcess, topic: str) -> list[tuple[bytes | None, int]]:
    """Committed values, and their times."""
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "r",
        "enable.partition.eof": True, "isolation.level": "read_committed",
    })  # fmt: skip
    found = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(WAIT_S)) is not None and not message.error():
            found.append((message.value(), message.timestamp()[1]))
        assert message is not None
    finally:
        consumer.close()
    return found


@pytest.mark.slow
def test_of_two_drivers_the_older_one_stops_and_nothing_is_written_twice(
    broker: BrokerProcess, topic: str
) -> None:
    create(broker, topic, f"{topic}.dlq")
    older = driver(broker, topic)
    older.write(batch(topic, 0, 0, 10), rows(f"{topic}.dlq", 3))
    newer = driver(broker, topic)
    first, second = batch(topic, 0, 0, 10), batch(topic, 1, 10, 20)
    assert overlaps(first, newer.done(first))
    assert not overlaps(second, newer.done(second))
    with pytest.raises(PipelineError, match="another driver has taken over query q"):
        older.write(second, rows(f"{topic}.dlq", 4))
    newer.write(second, rows(f"{topic}.dlq", 4))
    assert [value for value, _ in read(broker, f"{topic}.dlq")] == [
        b"%d" % number for count in (3, 4) for number in range(count)
    ]
    assert overlaps(second, newer.done(second))
    for each in (older, newer):
        each.close()


@pytest.mark.slow
def test_a_driver_that_is_killed_in_a_batch_leaves_nothing_of_it(
    broker: BrokerProcess, topic: str
) -> None:
    create(broker, topic, f"{topic}.dlq")
    killed = driver(broker, topic)

    def until_killed() -> Iterator[BadRow]:
        yield from rows(f"{topic}.dlq", 5)
        killed._producer.flush()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed.write(batch(topic, 0, 0, 10), until_killed())
    again = driver(broker, topic)
    assert again.done(batch(topic, 0, 0, 10)) == {}
    again.write(batch(topic, 0, 0, 10), rows(f"{topic}.dlq", 5))
    assert len(read(broker, f"{topic}.dlq")) == 5
    for each in (killed, again):
        each.close()


@pytest.mark.slow
def test_a_new_checkpoint_does_not_wait_for_the_transaction_of_a_killed_driver(
    broker: BrokerProcess, topic: str
) -> None:
    """Its offsets are uncertain until that transaction ends, which may take five minutes."""
    create(broker, topic, f"{topic}.dlq")
    killed = driver(broker, topic)
    killed._producer.begin_transaction()
    killed._send(rows(f"{topic}.dlq", 1)[0])
    offsets = {At(topic, 0): (10, -1, "q")}
    killed._producer.send_offsets_to_transaction(offsets, GroupMetadata(f"{topic}.letters"))
    client = {"bootstrap.servers": broker.bootstrap_servers, "default.api.timeout.ms": "20000"}
    dlq = f"{topic}.dlq"
    other = BadRowProducer(client, "another query", topic, dlq, {dlq: 1_048_588})
    assert other.done(batch(topic, 0, 0, 10)) == {}
    for each in (killed, other):
        each.close()


@pytest.mark.slow
def test_another_query_or_another_topic_has_bad_rows_of_its_own(
    broker: BrokerProcess, topic: str
) -> None:
    create(broker, topic, f"{topic}.dlq")
    producer = driver(broker, topic)
    done = batch(topic, 0, 0, 10)
    producer.write(done, [])
    assert producer.done(done) == {f"{IDS['orders']}/0": 10}
    recreated = BatchIdentity("q", 0, done.start, done.end, {topic: "another"})
    assert producer.done(recreated) == {}
    producer.close()
    client = {"bootstrap.servers": broker.bootstrap_servers}
    other = BadRowProducer(client, "q2", topic, f"{topic}.dlq", {f"{topic}.dlq": 1_000_000})
    assert other.done(done) == {}
    other.close()


@pytest.mark.slow
def test_a_letter_has_the_time_of_writing(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, f"{topic}.dlq")
    before_ms = int(time.time() * 1000)
    producer = driver(broker, topic)
    producer.write(batch(topic, 0, 0, 10), rows(f"{topic}.dlq", 1))
    producer.close()
    ((_, time_ms),) = read(broker, f"{topic}.dlq")
    assert before_ms - 1000 <= time_ms <= int(time.time() * 1000) + 1000


@pytest.mark.slow
def test_letter_topics_are_larger_than_the_topics_that_are_read(
    broker: BrokerProcess, topic: str
) -> None:
    """A record as large as its topic allows is written as it is, with its headers."""
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.create_topic(topic, partitions=1, configs={"max.message.bytes": "2000000"})
    spec = parse({
        "name": topic, "kind": "lake",
        "source": {"servers": broker.bootstrap_servers, "topics": [topic], "format": "json",
                   "schema": "id long"},
        "sink": {"path": "p"}, "run": {"checkpoint": "c"},
        "errors": {"dlq": f"{topic}.dlq", "retries": 1, "retry_topic": f"{topic}.retry"},
    })  # fmt: skip
    limits = ensure_letter_topics(spec)
    assert limits == dict.fromkeys((f"{topic}.dlq", f"{topic}.retry"), letter_size([2_000_000]))
    producer = driver(broker, topic, limits[f"{topic}.dlq"])
    cause = (header_names.CAUSE, b"c" * header_names.CAUSE_SIZE_MAX)
    large = BadRow(f"{topic}.dlq", b"k", b"v" * 1_999_900, (cause,))
    producer.write(batch(topic, 0, 0, 10), [large])
    producer.close()
    ((value, _),) = read(broker, f"{topic}.dlq")
    assert value == large.value


@pytest.mark.slow
def test_a_row_that_is_too_large_is_cut_and_does_not_stop_the_pipeline(
    broker: BrokerProcess, topic: str
) -> None:
    """The topics may be older than the pipeline, and records were compressed where they came
    from.
    """
    create(broker, topic, f"{topic}.dlq")
    producer = driver(broker, topic)
    huge = BadRow(f"{topic}.dlq", b"k", b"v" * 3_000_000, ((header_names.CAUSE, b"bad"),))
    producer.write(batch(topic, 0, 0, 10), [huge, *rows(f"{topic}.dlq", 1)])
    producer.close()
    (cut, _), (small, _) = read(broker, f"{topic}.dlq")
    assert cut is not None
    assert 1_000_000 < len(cut) < 1_048_588
    assert small == b"0"


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"k", b"v" * 5000, ()),
        (b"k" * 5000, b"v" * 5000, ()),
        (None, None, (("own", b"h" * 5000),)),
        (b"k" * 900, b"v" * 50, (("own", b"h" * 100),)),
    ],
)
def test_what_is_cut_fits_and_says_so(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes], ...]
) -> None:
    row = BadRow("retry", key, value, (*headers, (header_names.CAUSE, b"bad")))
    limits = {"retry": 1000, "dlq": 1000}
    found = fitted(row, limits, "dlq")
    assert found.topic == "dlq"  # half a value is bad for ever
    assert found.size <= 1000
    given = dict(found.headers)
    assert given[header_names.CUT] == b"%d" % len(value or b"")
    assert given[header_names.CAUSE] == b"bad"
    assert (found.value is None) == (value is None)
    assert fitted(row._replace(key=b"", value=b"", headers=()), limits, "dlq").topic == "retry"
