"""`barnabas demo`: a broker and, with Spark, three pipelines on one topic; counts that agree.

Always: however it ends, its brokers end too: on request, or by the kernel if the demo was killed.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from barnabas.cli import exits
from barnabas.cli.brokers.console_process import demo_console
from barnabas.cli.brokers.ready import READY_LINE
from barnabas.cli.looking.demo_readers import demo_readers, write_letters
from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.partition_consumer import PartitionConsumer
from barnabas.client.blocking.producer import Producer
from barnabas.client.cluster import ClusterClient
from barnabas.client.producer.batches import RecordMetadata
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.model.ids import TopicPartition

_TOPIC = "orders"
_PARTITIONS = 3
_STOP_S_MAX = 10
_RECORDS = 10_000
_RECORDS_OF_PIPELINES = 60_000


@click.command()
@click.option("-n", "--records", type=click.IntRange(1, 10_000_000), help="The number of orders.")
@click.option("--keep", is_flag=True, help="Keep the brokers running at the end, until Ctrl-C.")
def command(records: int | None, keep: bool) -> int:
    """A broker, a stream of orders, three pipelines on Spark, and counts that agree.

    Without Spark or Java: the broker, a producer and a consumer.
    """
    with _tidied_up():
        problem = _no_spark()
        if problem is None:
            from barnabas.cli.pipelines.demo import tell
            from barnabas.pipeline.errors import PipelineError

            try:
                return tell(records or _RECORDS_OF_PIPELINES, keep)
            except PipelineError as failure:
                click.echo(f"✘ {failure}", err=True)
                return exits.FAILURE
        click.echo(f"without pipelines: {problem}", err=True)
        return _broker_only(records or _RECORDS, keep)


@contextmanager
def _tidied_up() -> Iterator[None]:
    """SIGTERM and a closed terminal end the demo like Ctrl-C; a second signal ends it at once."""

    def end(number: int, _: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise SystemExit(128 + number)

    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _no_spark() -> str | None:
    """Why pipelines cannot run here, in one line; None if they can."""
    from importlib.util import find_spec

    from barnabas.pipeline.errors import PipelineError
    from barnabas.pipeline.run.session import check_java, spark_home

    try:
        spark_home()
        check_java()
    except PipelineError as problem:
        return str(problem)
    for name in ("pandas", "pyarrow", "yaml"):
        if find_spec(name) is None:
            return f"{name} is not installed: pip install 'barnabas[spark]'"
    return None


def _broker_only(records: int, keep: bool) -> int:
    with (
        directory() as where,
        broker(where, "broker") as (address, ready),
        demo_console(address) as console,
    ):
        if console is not None:
            click.echo(f"✔ console   {console}")
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
        click.echo(_next())
        if keep:
            with demo_readers(address, _TOPIC):
                write_letters(address, _TOPIC)
                wait_for_interrupt(console)
    return exits.OK


def _next() -> str:
    barnabas = called("barnabas")
    return "\n".join(
        [
            "\nThe counts agree. To try next:\n",
            *steps(
                (f"{barnabas} up", "a broker on localhost:9092"),
                (f"{barnabas} topic create orders -p 3", ""),
                (f"seq 100 | {barnabas} produce orders", ""),
                (
                    f"{barnabas} consume orders -o -5 -e -f '%d %p/%o %s\\n'",
                    "the last five of each partition",
                ),
                (
                    f"{called('pip')} install 'barnabas[spark]'",
                    "and Java 17: the demo has pipelines then",
                ),
            ),
            "\nAny Kafka client works too: point it at localhost:9092.",
        ]
    )


def steps(*tried: tuple[str, str]) -> list[str]:
    """A line for each thing to type, and what it does."""
    width = max(len(line) for line, _ in tried)
    return [f"  {line:<{width}}    {what}".rstrip() for line, what in tried]


def called(program: str) -> str:
    """The command as the user can type it: a path, if the directory of this Python is not in the
    PATH.
    """
    beside = Path(sys.executable).parent / program
    if shutil.which(program) == str(beside) or not beside.exists():
        return program
    here = Path.cwd()
    return str(beside.relative_to(here) if beside.is_relative_to(here) else beside)


def wait_for_interrupt(console: str | None) -> None:
    if console is not None:
        click.echo(f"\nLook at {console}: group billing has a slow member, and there are letters.")
    click.echo("\nCtrl-C ends it.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        click.echo(err=True)


@contextmanager
def directory() -> Iterator[str]:
    """A directory for the files of the demo; deleted at the end."""
    made = tempfile.mkdtemp(prefix="barnabas-demo-")
    try:
        yield made
    finally:
        for _ in range(50):  # Spark may create a file while the directory is deleted
            shutil.rmtree(made, ignore_errors=True)
            if not os.path.exists(made):
                break
            time.sleep(0.1)


@contextmanager
def broker(where: str, name: str) -> Iterator[tuple[str, str]]:
    """Its address, and how quickly it was ready. What it logs goes to a file."""
    path = os.path.join(where, f"{name}.log")
    with open(path, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "up", "--ephemeral", "--listen", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C goes to the demo, which then stops the broker
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - there is one thread so far
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.startswith(READY_LINE):
            raise Failed(Code.BROKER_NOT_AVAILABLE, f"the broker did not start: {_last(path)}")
        address, _, ready = line.removeprefix(READY_LINE).strip().partition(" ")
        yield address, ready
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _end_with_parent() -> None:
    """PR_SET_PDEATHSIG: the kernel sends SIGTERM when the demo ends, even if it was killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))


def _last(path: str) -> str:
    with open(path, errors="replace") as log:
        lines = log.read().splitlines()
    return lines[-1] if lines else "it said nothing"


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


def _consume(cluster: ClusterClient) -> int:
    partitions = [TopicPartition(_TOPIC, number) for number in range(_PARTITIONS)]
    with PartitionConsumer(partitions, cluster=cluster) as consumer:
        consumer.seek_to_beginning()
        consumer.stop_at(consumer.end_offsets())
        return sum(1 for _ in consumer)


def _progress(what: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\r\033[K" if done == total else f"\r  {what} {done}/{total}"
        click.echo(end, err=True, nl=False)
