"""`barnabas record`: a topic, or a part of it, into a file."""

import os
import sys

import click

from barnabas.cli.names import complete_topic
from barnabas.cli.offsets import BEGINNING, resolve
from barnabas.cli.options import cluster_options, open_cluster
from barnabas.cli.topic import find_topic, offsets_range, partitions_option, select_partitions
from barnabas.model.ids import TopicPartition


@click.command(context_settings={"max_content_width": 100})
@click.argument("topic", shell_complete=complete_topic)
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, writable=True))
@click.option(
    "-o",
    "--offset",
    "words",
    multiple=True,
    default=(BEGINNING,),
    metavar="OFFSET",
    help="As for `consume`: beginning, OFFSET, -N (the last N), s@TIME, e@TIME."
    "  [default: beginning]",
)
@partitions_option
@cluster_options
@click.pass_context
def command(
    ctx: click.Context, topic: str, path: str, words: tuple[str, ...], numbers: tuple[int, ...]
) -> None:
    """Write the records of a topic to FILE, batch by batch as the broker has them.

    `barnabas replay FILE` writes them to a topic; a test loads them with kafka.load(FILE).
    """
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.recording.record import record

    with open_cluster(ctx, {}) as cluster:
        admin = Admin(cluster=cluster)
        partitions = select_partitions(find_topic(admin, topic), numbers)
        starts, stops = resolve(admin, partitions, offsets_range(words), to_end=True, within=True)
        ranges: dict[TopicPartition, tuple[int, int]] = {
            at: (starts[at], stops[at]) for at in partitions if starts[at] < stops[at]
        }
        unfinished = f"{path}.part"
        try:
            with open(unfinished, "wb") as out:
                count = record(cluster, topic, ranges, out)
            os.replace(unfinished, path)
        finally:
            if os.path.exists(unfinished):
                os.unlink(unfinished)
    if sys.stderr.isatty():
        click.echo(f"{count} records, {os.path.getsize(path)} bytes", err=True)
