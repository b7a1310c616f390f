"""Each row of the table on docs/SPARK.md about failures, without Spark, on both brokers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from barnabas.coordinators.groups.records import partition_of
from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.outage import is_outage
from barnabas.pipeline.spark import brokers as clusters
from barnabas.pipeline.spark.group_committer import task_id
from barnabas.pipeline.spark.once_sink import OnceSink, TaskAttempt
from barnabas.pipeline.spark.options import sink_options
from tests.conftest import StartBroker, broker_with
from tests.pipeline.spark.once import SparkQuery, committed, create, rows

pytestmark = pytest.mark.slow

broker = broker_with({"transaction.state.log.num.partitions": "5"})
BOTH = ("barnabas", "kafka")


@pytest.fixture(autouse=True)
def _forget_clusters() -> Iterator[None]:
    yield
    for cluster in clusters._opened.values():
        cluster.close()
    clusters._opened.clear()


@pytest.fixture(params=BOTH)
def servers(request: pytest.FixtureRequest) -> str:
    name = "broker" if request.param == "barnabas" else "kafka"
    found: str = request.getfixturevalue(name).bootstrap_servers
    return found


@pytest.fixture
def ours(broker: Any) -> str:
    found: str = broker.bootstrap_servers
    return found


@pytest.fixture
def query(servers: str, topic: str, tmp_path: Path) -> SparkQuery:
    return started(servers, topic, tmp_path)


def started(servers: str, topic: str, tmp_path: Path) -> SparkQuery:
    create(servers, topic)
    found = SparkQuery(servers, topic, tmp_path / "checkpoint", str(uuid4()))
    for number in range(4):
        found.plan(number, 4 * number + 4)
    return found


def check(query: SparkQuery, *values: int) -> None:
    assert committed(query.servers, query.topic) == list(values)


# Every kind of broker


def test_batches_are_written_and_their_rows_are_visible_after_the_commit(query: SparkQuery) -> None:
    sink = query.started()
    reports = [query.task(sink, 0, n, rows(n, partition=n)) for n in range(2)]
    check(query)
    query.sink().commit(reports, 0)
    check(query, 0, 1)
    query.batch(1, 2, 3)
    check(query, 0, 1, 2, 3)


def test_a_driver_killed_before_the_commit_repeats_the_batch(query: SparkQuery) -> None:
    sink = query.started()
    for n in range(2):
        query.task(sink, 0, n, rows(n, partition=n))
    query.batch(0, 0, 1)
    check(query, 0, 1)


def test_a_driver_killed_while_tasks_write_repeats_the_batch(query: SparkQuery) -> None:
    query.task(query.started(), 0, 0, rows(0, partition=0))
    query.batch(0, 0, 1)
    check(query, 0, 1)


def test_a_driver_killed_before_its_tasks_repeats_the_batch(query: SparkQuery) -> None:
    query.started()
    query.batch(0, 0, 1)
    check(query, 0, 1)


def test_a_driver_killed_after_the_commit_does_not_write_the_batch_again(query: SparkQuery) -> None:
    """Spark's commit log does not have the batch."""
    query.batch(0, 0, 1)
    query.batch(0, 1, 0)  # a rerun places rows elsewhere
    check(query, 0, 1)
    query.batch(1, 2, 3)
    check(query, 0, 1, 2, 3)


def test_a_commit_whose_answer_was_lost_is_repeated(query: SparkQuery) -> None:
    sink = query.started()
    reports = [query.task(sink, 0, n, rows(n, partition=n)) for n in range(2)]
    for _ in range(2):
        query.sink().commit(reports, 0)
    check(query, 0, 1)


def test_a_zombie_driver_writes_nothing_after_its_successor_has_begun(query: SparkQuery) -> None:
    sink = query.started()
    reports = [query.task(sink, 0, n, rows(n, partition=n)) for n in range(2)]
    newer = query.started()
    again = [query.task(newer, 0, n, rows(n, partition=n)) for n in range(2)]
    with pytest.raises((PipelineError, KafkaError), match="nothing of"):
        query.sink().commit(reports, 0)
    query.sink().commit(again, 0)
    check(query, 0, 1)


def test_a_zombie_driver_that_commits_last_changes_nothing(query: SparkQuery) -> None:
    sink = query.started()
    reports = [query.task(sink, 0, n, rows(n, partition=n)) for n in range(2)]
    query.batch(0, 0, 1)
    query.batch(1, 2, 3)
    with pytest.raises((PipelineError, KafkaError)):
        query.sink().commit(reports, 0)
    check(query, 0, 1, 2, 3)


def test_a_zombie_task_of_an_older_driver_is_never_committed(query: SparkQuery) -> None:
    older = query.started()
    query.task(older, 0, 0, rows(0, partition=0))
    query.batch(0, 0, 1)
    try:
        query.task(older, 0, 0, rows(0, partition=0))
    except (PipelineError, KafkaError):
        pass  # Apache Kafka refuses it at once
    query.batch(1, 2, 3)
    check(query, 0, 1, 2, 3)


def test_an_aborted_batch_leaves_nothing(query: SparkQuery) -> None:
    sink = query.started()
    reports = [query.task(sink, 0, n, rows(n, partition=n)) for n in range(2)]
    query.sink().abort([reports[0], None])
    query.batch(0, 0, 1)
    check(query, 0, 1)


def test_an_older_copy_of_the_checkpoint_is_refused_and_nothing_is_written(
    query: SparkQuery,
) -> None:
    query.batch(0, 0, 1)
    query.batch(1, 2, 3)
    query.plan(1, 99)
    with pytest.raises(PipelineError, match=r"for other records.*Restore the newest checkpoint"):
        query.batch(1, 4, 5)
    with pytest.raises(PipelineError, match="for other records"):
        query.batch(0, 4, 5)
    check(query, 0, 1, 2, 3)


def test_a_batch_without_rows_is_no_problem(query: SparkQuery) -> None:
    query.batch(0)
    sink = query.started()
    query.sink().commit([query.task(sink, 1, 0)], 1)
    query.batch(2, 0, 1)
    check(query, 0, 1)


def test_all_rows_of_a_write_without_a_stream_or_none(
    servers: str, topic: str, tmp_path: Path
) -> None:
    create(servers, topic)
    given = {"kafka.bootstrap.servers": servers, "topic": topic, "exactlyOnce": "true"}
    for commits in (False, True):
        sink = OnceSink(sink_options(given), f"write-{topic}-{commits}")
        sink.prepare()
        reports = [
            sink.write(iter([rows(n, partition=n)]), TaskAttempt(None, None, n, 0))
            for n in range(2)
        ]
        (sink.commit if commits else sink.abort)(reports)
    assert committed(servers, topic) == [0, 1]


def test_a_numbered_write_without_a_stream_is_done_once(servers: str, topic: str) -> None:
    """As in foreachBatch."""
    create(servers, topic)
    given = {
        "kafka.bootstrap.servers": servers, "topic": topic, "exactlyOnce": "true",
        "txnAppId": f"app-{topic}",
    }  # fmt: skip
    for number, value in ((0, 10), (0, 10), (1, 11)):
        sink = OnceSink(sink_options({**given, "txnVersion": str(number)}), f"write-{value}")
        sink.prepare()
        task = TaskAttempt("another query", 7, 0, 0)
        sink.commit([sink.write(iter([rows(value, partition=0)]), task)])
    assert committed(servers, topic) == [10, 11]


# Barnabas


def test_a_retried_task_and_a_speculative_one_are_committed_once(
    ours: str, topic: str, tmp_path: Path
) -> None:
    query = started(ours, topic, tmp_path)
    sink = query.started()
    query.task(sink, 0, 0, rows(0, 2))  # its executor is lost
    retried = query.task(sink, 0, 0, rows(0, 2), attempt=1)
    first = query.task(sink, 0, 1, rows(1))
    query.task(sink, 0, 1, rows(1), attempt=1)  # speculation: the first one wins
    query.sink().commit([retried, first], 0)
    check(query, 0, 1, 2)


def test_a_task_of_the_same_attempt_number_fences_the_one_before(
    ours: str, topic: str, tmp_path: Path
) -> None:
    """A stage that is run again counts attempts from 0 again."""
    query = started(ours, topic, tmp_path)
    sink = query.started()
    old = query.task(sink, 0, 0, rows(0))
    new = query.task(sink, 0, 0, rows(0))
    with pytest.raises(PipelineError, match=r"nothing of it is visible.*Run it again"):
        query.sink().commit([old], 0)
    query.sink().commit([new], 0)
    check(query, 0)


def test_tasks_of_several_partitions_write_into_the_same_ones(
    ours: str, topic: str, tmp_path: Path
) -> None:
    query = started(ours, topic, tmp_path)
    sink = query.started()
    reports = [query.task(sink, 0, n, rows(*range(n * 10, n * 10 + 5))) for n in range(3)]
    query.sink().commit(reports, 0)
    check(query, *range(5), *range(10, 15), *range(20, 25))


def test_ids_of_tasks_are_a_small_set_in_the_partition_of_their_group() -> None:
    for group in ("spark-a", "spark-b"):
        ids = {
            task_id(group, partition, attempt, 50) for partition in range(20) for attempt in (0, 1)
        }
        assert len(ids) == 40
        assert {partition_of(id_, 50) for id_ in ids} == {partition_of(group, 50)}
        assert ids == {task_id(group, p, a, 50) for p in range(20) for a in (0, 1)}


# Apache Kafka


def test_on_kafka_what_cannot_be_done_once_is_refused(
    kafka: Any, topic: str, tmp_path: Path
) -> None:
    query = started(kafka.bootstrap_servers, topic, tmp_path)
    sink = query.started()
    with pytest.raises(PipelineError, match="cannot repeat a task"):
        query.task(sink, 0, 0, rows(0), attempt=1)
    reports = [query.task(sink, 0, n, rows(n, partition=n)) for n in (0, 1)]
    doubled = [reports[0], reports[0]]
    with pytest.raises(PipelineError, match="one task for each partition"):
        query.sink().commit(doubled, 0)
    check(query)
    missing = query.options()
    del missing["checkpointLocation"]
    with pytest.raises(PipelineError, match="checkpointLocation"):
        OnceSink(sink_options(missing)).prepare()


def test_on_kafka_a_stage_that_is_run_again_writes_nothing_over_its_first_run(
    kafka: Any, topic: str, tmp_path: Path
) -> None:
    """It counts attempts from 0 again. The rows come in another order, with the sequence numbers of
    those that are in the topic: the broker would take them for repetitions.
    """
    query = started(kafka.bootstrap_servers, topic, tmp_path)
    sink = query.started()
    query.task(sink, 0, 0, rows(0, 2, partition=0))  # another task has lost its shuffled rows
    with pytest.raises(PipelineError, match="an earlier run of this one") as refused:
        query.task(sink, 0, 0, rows(2, 0, partition=0))
    assert is_outage(refused.value)  # a continuous pipeline begins the batch again
    again = query.started()
    query.sink().commit([query.task(again, 0, 0, rows(2, 0, partition=0))], 0)
    check(query, 0, 2)


def test_a_task_that_does_not_know_its_query_is_refused(
    ours: str, topic: str, tmp_path: Path
) -> None:
    """Queries without a name would share the number of their last batch."""
    query = started(ours, topic, tmp_path)
    sink = query.started()
    with pytest.raises(PipelineError, match="does not name the query"):
        sink.write(iter([rows(0)]), TaskAttempt(None, 0, 0, 0))


def test_an_abort_without_brokers_hides_no_other_error(
    start_broker: StartBroker, topic: str, tmp_path: Path
) -> None:
    """Spark makes another writer for it, and reports nothing but its failure if it fails."""
    broker = start_broker()
    query = started(broker.bootstrap_servers, topic, tmp_path)
    report = query.task(query.started(), 0, 0, rows(0))
    broker.kill()
    query.sink(**{"kafka.default.api.timeout.ms": "500"}).abort([report])


def test_acks_other_than_all_are_refused(ours: str, topic: str, tmp_path: Path) -> None:
    query = SparkQuery(ours, topic, tmp_path)
    with pytest.raises(PipelineError, match="acks=all"):
        query.sink(**{"kafka.acks": "1"})


def test_a_timeout_that_brokers_do_not_allow_names_the_option(
    servers: str, topic: str, tmp_path: Path
) -> None:
    query = started(servers, topic, tmp_path)

    def write() -> None:
        sink = query.started(**{"kafka.transaction.timeout.ms": "2000000000"})
        query.task(sink, 0, 0, rows(1))

    with pytest.raises(PipelineError, match=r"kafka\.transaction\.timeout\.ms"):
        write()
