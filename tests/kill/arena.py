"""A broker under load that is killed again and again on one data directory.

In: a seed. Out: nothing, or Violation; the directory stays when there was one.
Always: the producers live through the kills; after each restart the new part of every log is
read back, at the end all of it, once more after a clean stop.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.wire.records import decode_batch, iter_batches
from tests.kill.groups import GroupUser
from tests.kill.ledger import Mark, PartitionLedger, Violation
from tests.kill.producers import LoadProducer, Place, RawProducer, RdkafkaProducer
from tests.kill.topics import TopicUser
from tests.ports import free_ports_from
from tests.process import BrokerProcess
from tests.raw import FETCH_BY_NAME, RawClient, records_in
from tests.waiting import PROGRAM_S

TOPICS = {"one": 1, "several": 3}
SEGMENT_BYTES = 40_000
STARTING_S_MAX = 0.35
STOPPING_S_MAX = 0.08
LOAD_S_MAX = 0.5
FETCH_BYTES = 4 << 20
# How often each. Housekeeping starts after a second and writes checkpoints after five.
WAYS = {
    "under load": 20,
    "at once": 6,
    "starting": 8,
    "stopping": 6,
    "stopped": 2,
    "after a while": 2,
}
BAD_WORDS = ("Traceback", "request failed", "fatal error", '"level": "error"')


class Arena:
    """One directory, one broker at a time, several producers."""

    def __init__(self, directory: Path, random: Random) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self._random = random
        options = {
            "log.segment.bytes": str(SEGMENT_BYTES),
            "num.partitions": "1",
            "offsets.topic.num.partitions": "3",
            "offsets.topic.segment.bytes": str(SEGMENT_BYTES),
            "group.initial.rebalance.delay.ms": "0",
        }
        self.broker = BrokerProcess(
            directory / "data", options, port=free_ports_from(1), log=directory / "broker.log"
        )
        self.broker.start()
        self.kills: dict[str, int] = {}
        self.ready_ms: list[int] = []
        self.ledgers: dict[Place, PartitionLedger] = {}
        with RawClient("127.0.0.1", self.broker.port) as client:
            for topic, partitions in TOPICS.items():
                assert client.create_topic(topic, partitions) == 0
                for partition in range(partitions):
                    name = f"{topic}-{partition}"
                    self.ledgers[topic, partition] = PartitionLedger(name)
        self.producers = self._producers()
        for producer in self.producers:
            producer.start()

    def _producers(self) -> list[LoadProducer]:
        port = self.broker.port
        return [
            RdkafkaProducer("rdkafka", port, self.ledgers, Random(self._random.random())),
            RawProducer("raw-a", port, self.ledgers, Random(self._random.random())),
            RawProducer("raw-b", port, self.ledgers, Random(self._random.random())),
            TopicUser(port, self.ledgers, Random(self._random.random())),
            GroupUser(port, self.ledgers, Random(self._random.random())),
        ]

    @property
    def acknowledged(self) -> int:
        return sum(producer.acknowledged for producer in self.producers)

    # One run

    def run(self) -> str:
        """Kill it somehow, start it again, look; the way it was killed."""
        way = self._random.choices(list(WAYS), list(WAYS.values()))[0]
        self.kills[way] = self.kills.get(way, 0) + 1
        if way in ("under load", "starting"):
            time.sleep(self._random.uniform(0, LOAD_S_MAX))
        elif way == "at once":
            time.sleep(self._random.uniform(0, 0.02))
        elif way == "after a while":
            time.sleep(self._random.choice((1.0, 2.0, 5.0)) + self._random.uniform(-0.1, 0.4))
        if way == "stopping":
            self._kill_stopping()
        elif way == "stopped":
            if code := self.broker.stop():
                raise Violation(f"a clean stop ended with {code}")
        else:
            self.broker.kill()
        if way == "starting":
            for _ in range(self._random.randrange(1, 3)):
                self._kill_starting()
        self.broker.start()
        self.ready_ms.append(self.broker.ready_ms)
        self.look()
        return way

    def _kill_stopping(self) -> None:
        """SIGTERM, and SIGKILL while it is still at it."""
        os.kill(self.broker.pid, signal.SIGTERM)
        time.sleep(self._random.uniform(0, STOPPING_S_MAX))
        self.broker.kill()

    def _kill_starting(self) -> None:
        with open(self.directory / "broker.log", "ab") as log:
            process = subprocess.Popen(self.broker.command(), stdout=subprocess.DEVNULL, stderr=log)
        time.sleep(self._random.uniform(0, STARTING_S_MAX))
        process.send_signal(signal.SIGKILL)
        process.wait()

    # Looking

    def look(self) -> None:
        """Read what is new, and hold it against what was promised."""
        for producer in self.producers:
            producer.check()
        due = {place: ledger.due_last for place, ledger in self.ledgers.items()}
        ends: dict[Place, int] = {}
        with RawClient("127.0.0.1", self.broker.port) as client:
            for place, end, records in self._read(client, dict.fromkeys(self.ledgers)):
                ends[place] = end
                ledger = self.ledgers[place]
                for offset, mark in records:
                    ledger.found(offset, mark)
        for place, ledger in self.ledgers.items():
            if ends[place] <= due[place]:
                raise Violation(
                    f"{ledger.name}: offset {due[place]} acknowledged, the end is {ends[place]}"
                )
            ledger.check_read(ends[place])
        self.check_log()

    def look_again(self) -> None:
        """All of it from the beginning; nothing may have changed."""
        with RawClient("127.0.0.1", self.broker.port) as client:
            seen = dict.fromkeys(self.ledgers, 0)
            for place, _, records in self._read(client, dict.fromkeys(self.ledgers, 0)):
                for offset, mark in records:
                    if offset != seen[place]:
                        raise Violation(f"{place}: offset {offset} follows {seen[place] - 1}")
                    self.ledgers[place].check_again(offset, mark)
                    seen[place] += 1
        for place, ledger in self.ledgers.items():
            if seen[place] != len(ledger.log):
                raise Violation(f"{ledger.name}: {seen[place]} records, were {len(ledger.log)}")

    def _read(
        self, client: RawClient, start: dict[Place, int | None]
    ) -> Iterator[tuple[Place, int, list[tuple[int, Mark]]]]:
        """Each partition from `start` (or where its ledger ends) to its end as it is now."""
        left = {
            place: len(self.ledgers[place].log) if offset is None else offset
            for place, offset in start.items()
        }
        ends: dict[Place, int] = {}
        while left:
            for place, data in self._fetch(client, left):
                end = ends.setdefault(place, data.high_watermark)
                records = [
                    (record.offset, Mark.decode(record.value))
                    for _, batch in iter_batches(records_in(data))
                    for record in decode_batch(batch)
                    if record.offset >= left[place]
                ]
                yield place, end, records
                left[place] += len(records)
                if left[place] >= end:
                    del left[place]
                elif not records:
                    raise Violation(f"{place}: no records at {left[place]}, the end is {end}")

    def _fetch(
        self, client: RawClient, offsets: dict[Place, int]
    ) -> list[tuple[Place, PartitionData]]:
        topics: dict[str, list[FetchPartition]] = {}
        for (topic, partition), offset in offsets.items():
            wanted = FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
            )
            topics.setdefault(topic, []).append(wanted)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[FetchTopic(topic=t, partitions=wanted) for t, wanted in topics.items()],
        )
        answer = client.call(request, FETCH_BY_NAME, FetchResponse)
        return [
            ((topic.topic, data.partition_index), data)
            for topic in answer.responses
            for data in topic.partitions
        ]

    def check_log(self) -> None:
        log = self.broker.log
        for word in BAD_WORDS:
            if word in log:
                at = log.index(word)
                raise Violation(
                    f"the broker's log has {word!r}: {log[max(0, at - 500) : at + 3000]}"
                )

    # The end

    def finish(self) -> None:
        """Let the producers end, then count everything, and again after a clean stop."""
        for producer in self.producers:
            producer.finish(PROGRAM_S)
        self.look()
        for place, ledger in self.ledgers.items():
            written = {p.name: p.written[place] for p in self.producers}
            ledger.check_complete(written)
        self.look_again()
        if code := self.broker.stop():
            raise Violation(f"a clean stop ended with {code}")
        self.broker.start()
        self.look_again()
        self.broker.stop()
        self.check_log()

    def abandon(self) -> None:
        for producer in self.producers:
            producer.finishing.set()
        if self.broker.is_running():
            self.broker.kill()
