"""Chapter: the three ways to use threads that need no window, on one topic."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from barnabas.cli.tours.stage import WAIT_S, TourStage
from barnabas.client.workers.per_batch import per_batch
from barnabas.client.workers.per_range import per_range
from barnabas.client.workers.per_thread import per_thread
from barnabas.client.workers.threads import Worker

RECORDS = 40
_TOGETHER = 4


class HandledRecord(NamedTuple):
    """Which thread has handled which record."""

    thread: str
    partition: int
    offset: int


def handled(message: Any) -> HandledRecord:
    return HandledRecord(threading.current_thread().name, message.partition, message.offset)


def show_threads(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("clicks", 2)
    _per_thread(stage)
    _per_range(stage)
    _per_batch(stage)


def _per_thread(stage: TourStage) -> None:
    found: list[HandledRecord] = []
    worker = per_thread("clicks", group_id="per-thread", threads=3)(
        lambda message: found.append(handled(message))
    )
    kafka = stage.kafka

    def have_joined() -> bool:
        if "per-thread" not in kafka.groups():
            return False
        return sorted(len(each.owned) for each in kafka.group("per-thread").members) == [0, 1, 1]

    with _running(stage, worker):
        stage.eventually("1 per_thread: three threads, each with a consumer", have_joined)
        for partition in range(2):
            kafka.produce("clicks", map(str, range(RECORDS // 2)), partition=partition)
        stage.eventually("they handle all records", lambda: len(found) == RECORDS)
    places = [(each.partition, each.offset) for each in found]
    by_partition = [[each for each in places if each[0] == number] for number in range(2)]
    stage.claim(
        "each partition was read in order", all(each == sorted(each) for each in by_partition)
    )
    stage.claim(
        "of three threads and two partitions, one thread had nothing to do",
        len({each.thread for each in found}) == 2,
    )


def _per_range(stage: TourStage) -> None:
    found: list[HandledRecord] = []
    together = threading.Barrier(_TOGETHER)

    def handle(message: Any) -> None:
        if message.offset % 10 == 0:  # the first record of a range
            together.wait(WAIT_S)
        found.append(handled(message))

    per_range("clicks", group_id="per-range", readers=_TOGETHER, size=10)(handle).run(
        bootstrap_servers=stage.kafka.bootstrap_servers
    )
    stage.claim(
        "2 per_range: four readers at once in two partitions, then it ends",
        len({each.thread for each in found}) == _TOGETHER,
    )
    stage.claim(
        "each record was handled once",
        sorted((each.partition, each.offset) for each in found)
        == [(number, offset) for number in range(2) for offset in range(RECORDS // 2)],
    )


def _per_batch(stage: TourStage) -> None:
    found: list[HandledRecord] = []
    together = threading.Barrier(_TOGETHER)

    def handle(message: Any) -> None:
        if message.partition == 0 and message.offset < _TOGETHER:
            together.wait(WAIT_S)
        found.append(handled(message))

    worker = per_batch("clicks", group_id="per-batch", pool=_TOGETHER, batch=RECORDS)(handle)
    with _running(stage, worker):
        stage.eventually(
            "3 per_batch: one consumer, and four threads handle four records at a time",
            lambda: len(found) == RECORDS,
        )
        stage.eventually(
            "a batch is committed when its last record is done",
            lambda: stage.kafka.lag("per-batch") == 0,
        )


@contextmanager
def _running(stage: TourStage, worker: Worker[Any, Any]) -> Iterator[None]:
    options = {"bootstrap_servers": stage.kafka.bootstrap_servers}
    thread = threading.Thread(target=worker.run, kwargs=options)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()
