"""`barnabas consume`: records of a topic on standard output."""

import sys
from typing import TYPE_CHECKING

import click

from barnabas.cli.formats import Formatter, compile_format
from barnabas.cli.names import complete_topic
from barnabas.cli.offsets import BEGINNING, resolve
from barnabas.cli.options import cluster_options, open_cluster
from barnabas.cli.topic import find_topic, offsets_range, partitions_option, select_partitions
from barnabas.client.consumer.json_lines import to_json

if TYPE_CHECKING:
    from barnabas.client.blocking.partition_consumer import PartitionConsumer
    from barnabas.client.consumer.message import Raw, RawMessage

_BUFFER_SIZE = 1 << 16
_BATCH = 1_000


@click.command(context_settings={"max_content_width": 100})
@click.argument("topic", shell_complete=complete_topic)
@click.option(
    "-o",
    "--offset",
    "words",
    multiple=True,
    default=(BEGINNING,),
    metavar="OFFSET",
    help="beginning, end, OFFSET, -N (the last N), s@TIME (from), e@TIME (up to). TIME is in "
    "milliseconds or ISO 8601. s@ and e@ go together.  [default: beginning]",
)
@partitions_option
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after this many records.")
@click.option("-e", "--exit", "to_end", is_flag=True, help="Stop at the current end of the topic.")
@click.option(
    "-f",
    "--format",
    "format_",
    help="%s value, %S its length, %R the same in 4 bytes, %k key, %K its length, %T time in ms, "
    "%d time as ISO 8601, %h headers, %t topic, %p partition, %o offset, \\n \\t \\xNN. "
    " [default: %s\\n]",
)
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON lines, which produce -J reads.")
@click.option("-Z", "null", is_flag=True, help="Print NULL for null keys and values.")
@cluster_options
@click.pass_context
def command(
    ctx: click.Context,
    topic: str,
    words: tuple[str, ...],
    numbers: tuple[int, ...],
    count: int | None,
    to_end: bool,
    format_: str | None,
    as_json: bool,
    null: bool,
) -> None:
    """Read records from a topic.

    Records of __consumer_offsets and __transaction_state are shown decoded, unless -f is given.
    """
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.blocking.partition_consumer import PartitionConsumer

    if as_json and format_ is not None:
        raise click.UsageError("-f and -J exclude each other")
    range_ = offsets_range(words)
    formatter = _formatter(format_, as_json, null)
    if format_ is None and topic.startswith("__"):
        formatter = _decoded(formatter)
    # If retention deletes records during the read, only those are skipped.
    with open_cluster(ctx, {"auto.offset.reset": "earliest"}) as cluster:
        admin = Admin(cluster=cluster)
        partitions = select_partitions(find_topic(admin, topic), numbers)
        starts, stops = resolve(admin, partitions, range_, to_end=to_end, within=True)
        with PartitionConsumer(partitions, cluster=cluster) as consumer:
            for at, offset in starts.items():
                consumer.seek(at, offset)
            consumer.stop_at(stops)
            given = _print_all(consumer, formatter, count)
    if sys.stderr.isatty():
        click.echo(f"{given} records", err=True)


def _print_all(
    consumer: "PartitionConsumer[Raw, Raw]", formatter: Formatter, count: int | None
) -> int:
    given = 0
    # A buffer of its own: that of sys.stdout depends on the environment.
    with open(sys.stdout.fileno(), "wb", buffering=_BUFFER_SIZE, closefd=False) as out:
        while messages := consumer.getmany(_BATCH if count is None else min(count - given, _BATCH)):
            for message in messages:
                out.write(formatter(message))
            given += len(messages)
            if given == count:
                break
            out.flush()  # so that received records are shown while waiting for more
    return given


def _formatter(format_: str | None, as_json: bool, null: bool) -> Formatter:
    if as_json:
        return to_json
    try:
        return compile_format("%s\\n" if format_ is None else format_, b"NULL" if null else None)
    except ValueError as problem:
        raise click.UsageError(f"-f {problem}") from None


def _decoded(otherwise: Formatter) -> Formatter:
    """Records of the broker's own topics as JSON lines; others as they are."""
    import json

    from barnabas.coordinators.record_text import described

    def formatter(message: "RawMessage") -> bytes:
        found = described(message.topic, message.key, message.value)
        if found is None:
            return otherwise(message)
        where = {"partition": message.partition, "at": message.offset}
        return json.dumps({**where, **found}, ensure_ascii=False).encode() + b"\n"

    return formatter
