"""One member of a group, as a program: `python -m tests.compat.groups.member LIBRARY JSON`.

It consumes, commits after every poll that brought something, and says on standard output, a JSON
object a line, what it owns, what it has read, and what was refused. A commit that was refused comes
again after the next poll: a member that keeps its partitions through a rebalance reads nothing
twice, so nothing else would make it commit. SIGTERM makes it close its consumer in good order.
"""

import asyncio
import json
import signal
import sys
from types import FrameType
from typing import Any

POLL_S = 0.1
HEARTBEAT_MS = 300
SERVER = "server-"  # before the names of assignors of the new protocol

stopping = False


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def stop(number: int, frame: FrameType | None) -> None:
    global stopping  # noqa: PLW0603 - a signal handler has no other way to tell
    stopping = True


class Owned:
    """Says what a member owns whenever that changes."""

    def __init__(self) -> None:
        self._said: list[int] | None = None

    def now(self, partitions: list[int]) -> None:
        partitions.sort()
        if partitions != self._said:
            self._said = partitions
            say(owned=partitions)


def confluent(options: dict[str, Any]) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException

    settings = {
        "bootstrap.servers": options["bootstrap"],
        "group.id": options["group"],
        "client.id": options["name"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 1000,
        "reconnect.backoff.max.ms": 500,
    }
    if options["strategy"].startswith(SERVER):
        settings["group.protocol"] = "consumer"
        settings["group.remote.assignor"] = options["strategy"].removeprefix(SERVER)
    else:
        settings["session.timeout.ms"] = options["session_ms"]
        settings["heartbeat.interval.ms"] = HEARTBEAT_MS
        settings["partition.assignment.strategy"] = options["strategy"]
    if options["instance"]:
        settings["group.instance.id"] = options["instance"]
    consumer = Consumer(settings)
    consumer.subscribe(options["topics"])
    owned = Owned()
    uncommitted = False
    while not stopping:
        messages = consumer.consume(100, POLL_S)
        owned.now([each.partition for each in consumer.assignment()])
        for message in messages:
            error = message.error()
            if error is not None:
                say(error=error.code())
                if error.code() == KafkaError._FATAL:
                    return
            else:
                say(partition=message.partition(), offset=message.offset())
                uncommitted = True
        if uncommitted:
            try:
                consumer.commit(asynchronous=False)
                uncommitted = False
            except KafkaException as refused:
                say(error=refused.args[0].code())
                # What it read may be another's by now, who reads it again.
                uncommitted = refused.args[0].code() != KafkaError._NO_OFFSET
                if refused.args[0].code() == KafkaError._FATAL:
                    return
    consumer.close()


def kafka_python(options: dict[str, Any]) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError

    strategies = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    consumer = KafkaConsumer(
        *options["topics"],
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        client_id=options["name"],
        group_instance_id=options["instance"] or None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=options["session_ms"],
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=1000,
        partition_assignment_strategy=[strategies[options["strategy"]]],
    )
    owned = Owned()
    uncommitted = False
    while not stopping:
        try:
            polled = consumer.poll(timeout_ms=int(POLL_S * 1000))
            owned.now([each.partition for each in consumer.assignment()])
            for records in polled.values():
                for record in records:
                    say(partition=record.partition, offset=record.offset)
            uncommitted = uncommitted or bool(polled)
            if uncommitted:
                consumer.commit()
                uncommitted = False
        except KafkaError as error:
            say(error=getattr(error, "errno", -1))
            if getattr(error, "errno", -1) == 82:  # fenced: another has our instance id
                return
    consumer.close()


async def aiokafka(options: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError

    strategies = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = AIOKafkaConsumer(
        *options["topics"],
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        client_id=options["name"],
        group_instance_id=options["instance"] or None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=options["session_ms"],
        request_timeout_ms=max(40_000, 2 * options["session_ms"]),  # longer than a rebalance
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=1000,
        partition_assignment_strategy=[strategies[options["strategy"]]],
    )
    await consumer.start()
    owned = Owned()
    uncommitted = False
    while not stopping:
        try:
            polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
            owned.now([each.partition for each in consumer.assignment()])
            for records in polled.values():
                for record in records:
                    say(partition=record.partition, offset=record.offset)
            uncommitted = uncommitted or bool(polled)
            if uncommitted:
                await consumer.commit()
                uncommitted = False
        except KafkaError as error:
            say(error=getattr(error, "errno", -1))
    await consumer.stop()


async def barnabas(options: dict[str, Any]) -> None:
    from barnabas import Consumer, KafkaError

    strategy = options["strategy"]
    ours: dict[str, Any] = (
        {"group_protocol": "consumer", "group_remote_assignor": strategy.removeprefix(SERVER)}
        if strategy.startswith(SERVER)
        else {"partition_assignment_strategy": strategy}
    )
    async with Consumer(
        *options["topics"],
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        client_id=options["name"],
        group_instance_id=options["instance"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=options["session_ms"],
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=1000,
        **ours,
    ) as consumer:
        owned = Owned()
        uncommitted = False
        while not stopping:
            try:
                messages = await consumer.getmany(100, POLL_S)
                owned.now([each.partition for each in consumer.assignment()])
                for message in messages:
                    say(partition=message.partition, offset=message.offset)
                uncommitted = uncommitted or bool(messages)
                if uncommitted:
                    await consumer.commit()
                    uncommitted = False
            except KafkaError as error:
                say(error=error.code)
                if error.code == 82:  # fenced: another has our instance id
                    return


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    library, options = sys.argv[1], json.loads(sys.argv[2])
    if library == "confluent":
        confluent(options)
    elif library == "kafka-python":
        kafka_python(options)
    else:
        asyncio.run({"aiokafka": aiokafka, "barnabas": barnabas}[library](options))


if __name__ == "__main__":
    main()
