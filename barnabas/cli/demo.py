"""`barnabas demo`: a broker, a topic, a producer and a consumer whose counts agree."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from barnabas.cli import exits
from barnabas.client.batches import RecordMetadata
from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.partition_consumer import PartitionConsumer
from barnabas.client.blocking.producer import Producer
from barnabas.client.cluster import Cluster
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.model.ids import TopicPartition

_TOPIC = "orders"
_PARTITIONS = 3
_READY = "barnabas ready on "
_STOP_S_MAX = 10


@click.command()
@click.option("-n", "--records", type=click.IntRange(1, 10_000_000), default=10_000)
def command(records: int) -> int:
    """A broker, a topic, a producer and a consumer, in a few seconds."""
    with _broker() as (address, ready):
        click.echo(f"✔ broker    {address} {ready}")
        with open_cluster({"bootstrap.servers": address, "client.id": "demo"}, {}) as cluster:
            Admin(cluster=cluster).create_topic(_TOPIC, partitions=_PARTITIONS)
            click.echo(f"✔ topic     {_TOPIC}, {_PARTITIONS} partitions")
            started = time.monotonic()
            produced = _produce(address, records)
            click.echo(f"✔ produced  {produced} records in {time.monotonic() - started:.2f} s")
            started = time.monotonic()
            consumed = _consume(cluster)
            click.echo(f"✔ consumed  {consumed} records in {time.monotonic() - started:.2f} s")
    if not produced == consumed == records:
        click.echo(
            f"✘ {records} records wanted, {produced} produced, {consumed} consumed", err=True
        )
        return exits.FAILURE
    click.echo(_NEXT)
    return exits.OK


_NEXT = """
The counts agree. To try next:

  barnabas up                                            a broker on localhost:9092
  barnabas topic create orders -p 3
  seq 100 | barnabas produce orders
  barnabas consume orders -o -5 -e -f '%d %p/%o %s\\n'    the last five of each partition

Any Kafka client works too: point it at localhost:9092."""


@contextmanager
def _broker() -> Iterator[tuple[str, str]]:
    """Its address, and how quickly it was ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "up", "--ephemeral", "--listen", "127.0.0.1:0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if not sys.stderr.isatty() else None,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.startswith(_READY):
            raise Failed(Code.BROKER_NOT_AVAILABLE, "the broker did not start")
        address, _, ready = line.removeprefix(_READY).strip().partition(" ")
        yield address, ready
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _produce(address: str, records: int) -> int:
    written = 0

    def delivered(metadata: RecordMetadata | None, problem: KafkaError | None) -> None:
        nonlocal written
        written += metadata is not None

    with Producer({"bootstrap.servers": address, "client.id": "demo"}) as producer:
        for number in range(records):
            producer.drain()
            producer.send_nowait(
                _TOPIC,
                b'{"order": %d, "amount": %d}' % (number, number % 997),
                key=f"customer-{number % 100}",
                callback=delivered,
            )
            if number % 1000 == 0:
                _progress("producing", number, records)
    _progress("producing", records, records)
    return written


def _consume(cluster: Cluster) -> int:
    partitions = [TopicPartition(_TOPIC, number) for number in range(_PARTITIONS)]
    with PartitionConsumer(partitions, cluster=cluster) as consumer:
        consumer.seek_to_beginning()
        consumer.stop_at(consumer.end_offsets())
        return sum(1 for _ in consumer)


def _progress(what: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\r\033[K" if done == total else f"\r  {what} {done}/{total}"
        click.echo(end, err=True, nl=False)
