"""A member of a share group that accepts records until it is told to end, or is killed.

    python -m tests.cluster.share_member '{"library": "own", ...}'

In: MemberTask as JSON. Out: a line in its file after each poll, before each commit, and after it:
what it got, what it is about to accept, what is accepted. On SIGTERM it leaves and ends with 0.
Always: a line is in the file before the next step begins. Each seventh record is released when it
comes for the first time.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import msgspec
from confluent_kafka import AcknowledgeType as ConfluentType
from confluent_kafka import KafkaException

import barnabas.sync
from barnabas import AcknowledgeType
from barnabas.model.errors import KafkaError
from tests.cluster.copier import Ending

POLL_S = 0.5
COMMIT_S = 30.0
RELEASED_EACH = 7
At = tuple[int, int]


class MemberTask(msgspec.Struct, frozen=True):
    """`file`: of its lines; a new one for each process."""

    library: str
    servers: str
    topic: str
    group: str
    file: str


class Lines(msgspec.Struct, omit_defaults=True):
    """One line. Times are those of the machine's monotonic clock, the same for all processes."""

    began: float = 0.0  # when the poll began that returned `got`
    got: list[At] = []
    trying: list[At] = []
    at: float = 0.0  # when it was known that `accepted` is stored
    accepted: list[At] = []


class Notes:
    """The file of a member."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def write(self, line: Lines) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")


def is_released(offset: int, deliveries: int) -> bool:
    return offset % RELEASED_EACH == 0 and deliveries == 1


def commit(notes: Notes, trying: list[At], send: Callable[[], dict[Any, Any]]) -> None:
    notes.write(Lines(trying=trying))
    results = send()
    now = time.monotonic()
    stored = {place.partition for place, error in results.items() if error is None}
    notes.write(Lines(at=now, accepted=[at for at in trying if at[0] in stored]))


def run_own(task: MemberTask, ending: Ending, notes: Notes) -> None:
    with barnabas.sync.ShareConsumer[Any, Any](
        task.topic,
        bootstrap_servers=task.servers,
        group_id=task.group,
        share_acknowledgement_mode="explicit",
        max_poll_records=20,
    ) as consumer:
        while not ending.asked:
            began, trying = time.monotonic(), []
            try:
                messages = consumer.poll(timeout=POLL_S)
            except KafkaError:
                continue  # a broker is away
            if not messages:
                continue
            notes.write(Lines(began=began, got=[(m.partition, m.offset) for m in messages]))
            for each in messages:
                if is_released(each.offset, each.delivery_count or 0):
                    consumer.acknowledge(each, AcknowledgeType.RELEASE)
                else:
                    consumer.acknowledge(each)
                    trying.append((each.partition, each.offset))
            commit(notes, trying, lambda: consumer.commit_sync(COMMIT_S))


def run_confluent(task: MemberTask, ending: Ending, notes: Notes) -> None:
    consumer = confluent_kafka.ShareConsumer(
        {
            "bootstrap.servers": task.servers,
            "group.id": task.group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 20,
            "socket.timeout.ms": 10_000,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    consumer.subscribe([task.topic])
    while not ending.asked:
        began, trying = time.monotonic(), []
        try:
            messages = [each for each in consumer.poll(POLL_S) if each.error() is None]
        except KafkaException:
            continue  # a broker is away
        if not messages:
            continue
        places = [(each.partition() or 0, each.offset() or 0) for each in messages]
        notes.write(Lines(began=began, got=places))
        for at, each in zip(places, messages, strict=True):
            if is_released(at[1], each.delivery_count() or 0):
                consumer.acknowledge(each, ConfluentType.RELEASE)
            else:
                consumer.acknowledge(each)
                trying.append(at)
        commit(notes, trying, lambda: consumer.commit_sync(COMMIT_S))
    consumer.close()


def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=MemberTask)
    run = {"own": run_own, "confluent": run_confluent}[task.library]
    run(task, Ending(), Notes(task.file))


if __name__ == "__main__":
    main()
