"""`barnabas delay`: deliver records at the time in their headers; see and cancel pending ones."""

import re
from typing import TYPE_CHECKING

import click

from barnabas.cli import exits
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.names import complete_topic
from barnabas.cli.options import client_settings, cluster_options, open_cluster
from barnabas.cli.render import output_option, render
from barnabas.cli.topic import find_topic
from barnabas.cli.up import HostAndPort
from barnabas.client.tables import Row
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, InvalidRequest

if TYPE_CHECKING:
    from barnabas.client.cluster import ClusterClient
    from barnabas.client.delay.holding_reader import HoldingReader, PendingRecord
    from barnabas.client.delay.holding_topics import HoldingTopic

READY_LINE = "barnabas delay delivers from "
GROUP = "barnabas.delay"
DAYS_MAX = 7
_READ = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
_LOOK_MS = 100


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
@cluster_options
def command() -> None:
    """Deliver records at the time in their headers; list and cancel pending ones."""


@command.command("run")
@click.argument("topics", nargs=-1, shell_complete=complete_topic)
@click.option(
    "--group",
    default=GROUP,
    show_default=True,
    help="The consumer group that shares the partitions among several of these programs.",
)
@click.option(
    "--days-max",
    type=click.IntRange(1, 3650),
    default=DAYS_MAX,
    show_default=True,
    help="A record that is due later than this becomes a dead letter.",
)
@click.option("--metrics", type=HostAndPort(), help="Serve Prometheus metrics on this address.")
@cluster_options
@click.pass_context
def run_(
    ctx: click.Context,
    topics: tuple[str, ...],
    group: str,
    days_max: int,
    metrics: Address | None,
) -> None:
    """Deliver the records of holding topics when they are due, until Ctrl-C or SIGTERM.

    A record's header deliver-at is its time in milliseconds since 1970, deliver-to its topic. Each
    record is delivered once, whatever is killed; readers use isolation.level=read_committed.
    Records that cannot be delivered go to TOPIC.dlq. A TOPIC that does not exist is created.
    Without TOPICS: all topics with barnabas.scheduler=true, also later ones.
    """
    import asyncio
    import logging
    import signal
    from contextlib import ExitStack

    from barnabas.client.delay.delay_metrics import served
    from barnabas.client.delay.delayer import Delayer

    settings = client_settings(ctx)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)

    at = ""

    def ready(names: list[str]) -> None:
        click.echo(f"{READY_LINE}{', '.join(names)}{at}")

    async def deliver() -> None:
        delayer = Delayer(topics, settings, group=group, days_max=days_max)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, delayer.stop)
        with ExitStack() as serving:
            if metrics is not None:
                nonlocal at
                host = metrics.host or "127.0.0.1"
                try:
                    page = serving.enter_context(served(delayer.views, host, metrics.port))
                except OSError as problem:
                    raise click.ClickException(
                        f"--metrics: {host}:{metrics.port} cannot be listened on:"
                        f" {problem.strerror or problem}: choose another port; 0 picks a free one"
                    ) from None
                at = f", metrics at {page}"
            await delayer.run(ready)

    asyncio.run(deliver())


@command.command("ls")
@click.argument("topic", required=False, shell_complete=complete_topic)
@click.option("-c", "--count", type=click.IntRange(1), default=100, show_default=True,
              help="At most this many records, those that are due first.")  # fmt: skip
@click.option("--to", metavar="TOPIC", help="Only records for this topic.")
@click.option("--key", metavar="TEXT", help="Only records with this key.")
@click.option(
    "--max-late",
    type=click.IntRange(0),
    help=f"Exit with {exits.ASSERTION} if more records than this are late by 10 seconds.",
)
@output_option
@cluster_options
@click.pass_context
def list_(
    ctx: click.Context,
    topic: str | None,
    count: int,
    to: str | None,
    key: str | None,
    max_late: int | None,
    output: str,
) -> int:
    """List holding topics, or the pending records of one of them."""
    from barnabas.client.admin.admin import Admin
    from barnabas.client.blocking.net import run
    from barnabas.client.delay import delay_rows
    from barnabas.client.delay.holding_topics import marked_topics

    with open_cluster(ctx, _READ) as cluster:
        now = cluster.net.wall_ms()
        if topic is None:
            names = run(marked_topics(Admin(cluster=cluster)))
            rows = [delay_rows.summary_row(name, _pending(cluster, name), now) for name in names]
            late = sum(row["late"] for row in rows)
            render(rows, list(delay_rows.SUMMARY_COLUMNS), output)
        else:
            found = [one for one in _pending(cluster, topic) if _wanted(one, to, key)]
            late = len(delay_rows.late_records(found, now))
            shown = [delay_rows.pending_row(one) for one in found[:count]]
            render(shown, list(delay_rows.PENDING_COLUMNS), output)
    return exits.ASSERTION if max_late is not None and late > max_late else exits.OK


@command.command()
@click.argument("topic", shell_complete=complete_topic)
@click.argument("places", metavar="PARTITION:OFFSET...", nargs=-1)
@click.option("--key", metavar="TEXT", help="All pending records with this key.")
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="Seconds to wait for the delayer's confirmation.",
)
@output_option
@cluster_options
@click.pass_context
def cancel(
    ctx: click.Context,
    topic: str,
    places: tuple[str, ...],
    key: str | None,
    timeout: float,
    output: str,
) -> int:
    """Cancel pending records of a holding topic, by their offsets or by their key.

    Waits until the delayer has confirmed it: then the record is never delivered. Exits with 1 if a
    record was delivered first, and with 4 if no delayer has answered in time; the cancellation
    then holds as soon as one runs.
    """
    if bool(places) == (key is not None):
        raise click.UsageError("name records as PARTITION:OFFSET, or a --key")
    wanted = [_place(text) for text in places]
    with open_cluster(ctx, _READ) as cluster:
        begins = _ledger_ends(cluster, topic)  # first: what is pending now is decided after them
        pending = {(one.partition, one.move.offset): one for one in _pending(cluster, topic)}
        if key is not None:
            wanted = [at for at, one in pending.items() if one.key == key.encode()]
        for partition, offset in wanted:
            if (partition, offset) not in pending:
                raise InvalidRequest(
                    Code.RESOURCE_NOT_FOUND,
                    f"{topic}:{partition}:{offset} is not pending: it was delivered or cancelled,"
                    " or there is no such record",
                )
        _write_cancellations(client_settings(ctx), topic, wanted)
        outcomes = _confirmed(cluster, topic, wanted, begins, int(timeout * 1000))
    rows: list[Row] = [
        {"at": f"{at[0]}:{at[1]}", "partition": at[0], "offset": at[1], "outcome": outcomes[at]}
        for at in wanted
    ]
    render(rows, ["at", "outcome"], output)
    if _REQUESTED in outcomes.values():
        click.echo("barnabas: no delayer has answered: does `barnabas delay run` run?", err=True)
        return exits.TIMEOUT
    return exits.OK if set(outcomes.values()) <= {_CANCELLED} else exits.FAILURE


_CANCELLED = "cancelled"
_REQUESTED = "requested"


def _place(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,18})", text)
    if found is None:
        raise click.UsageError(f"{text!r}: expected PARTITION:OFFSET, as in `barnabas delay ls`")
    return int(found[1]), int(found[2])


def _write_cancellations(
    settings: dict[str, str], topic: str, places: list[tuple[int, int]]
) -> None:
    from barnabas.client.blocking.producer import Producer
    from barnabas.client.delay.delayed_record import DELIVER_CANCEL

    with Producer(settings) as producer:
        for partition, offset in places:
            headers = [(DELIVER_CANCEL, str(offset).encode())]
            producer.send(topic, None, partition=partition, headers=headers)


def _ledger_ends(cluster: "ClusterClient", topic: str) -> list[int]:
    from barnabas.client.blocking.net import run

    reader, holding = _holding(cluster, topic)
    return [run(reader.ledger_end(holding, number)) for number in range(holding.partitions)]


def _confirmed(
    cluster: "ClusterClient",
    topic: str,
    places: list[tuple[int, int]],
    begins: list[int],
    timeout_ms: int,
) -> dict[tuple[int, int], str]:
    """What became of each record."""
    from barnabas.client.blocking.net import run

    reader, holding = _holding(cluster, topic)
    deadline = cluster.net.now_ms() + timeout_ms
    outcomes = dict.fromkeys(places, _REQUESTED)
    while True:
        for at in [at for at, outcome in outcomes.items() if outcome == _REQUESTED]:
            outcome = run(reader.outcome(holding, *at, begins[at[0]]))
            if outcome is not None:
                outcomes[at] = outcome.name.lower().replace("_", " ")
        if _REQUESTED not in outcomes.values() or cluster.net.now_ms() >= deadline:
            return outcomes
        run(cluster.net.sleep(_LOOK_MS))


def _holding(cluster: "ClusterClient", topic: str) -> "tuple[HoldingReader, HoldingTopic]":
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.delay.holding_reader import HoldingReader
    from barnabas.client.delay.holding_topics import HoldingTopic

    found = find_topic(Admin(cluster=cluster), topic)
    return HoldingReader(cluster), HoldingTopic(topic, str(found.id), len(found.partitions))


def _pending(cluster: "ClusterClient", topic: str) -> "list[PendingRecord]":
    """In the order in which they are due."""
    from barnabas.client.blocking.net import run
    from barnabas.client.delay.delay_rows import pending_records

    _, holding = _holding(cluster, topic)
    return run(pending_records(cluster, holding))


def _wanted(one: "PendingRecord", to: str | None, key: str | None) -> bool:
    return (to is None or one.move.topic == to) and (key is None or one.key == key.encode())
