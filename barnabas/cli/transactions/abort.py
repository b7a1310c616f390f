"""`barnabas txn abort`: end a transaction, by its coordinator or, if none has it, in its partition.

Always: shows what it will do before it asks. A transaction whose end is decided is left to its
coordinator. A hanging transaction is looked for again after the answer: it may have ended.
"""

from typing import TYPE_CHECKING

import click

from barnabas.cli import exits
from barnabas.cli.confirmation import confirm, require_answer, yes_option
from barnabas.cli.options import cluster_options, open_cluster
from barnabas.cli.partitions import named_partitions
from barnabas.cli.transactions.arguments import find_transaction, id_argument
from barnabas.model.words import printable

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.transactions.report import OpenTransaction, TransactionsReport
    from barnabas.model.ids import TopicPartition


# The coordinator keeps it as the cause of the abort, unless -X client.id says otherwise.
CLIENT = {"client.id": "barnabas-txn-abort"}


@click.command()
@id_argument(required=False)
@click.option(
    "--hanging",
    metavar="TOPIC[:PARTITION]",
    multiple=True,
    help="Abort the transactions of this topic or partition that no coordinator knows.",
)
@click.option(
    "--start-offset",
    type=click.IntRange(0),
    help="With --hanging: only the transaction that begins at this offset.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be aborted, change nothing.")
@yes_option
@cluster_options
@click.pass_context
def abort(
    ctx: click.Context,
    transactional_id: str | None,
    hanging: tuple[str, ...],
    start_offset: int | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Abort the open transaction of a transactional id, or hanging transactions.

    The coordinator of ID fences its producer and aborts the transaction. A hanging transaction is
    one that no coordinator knows: the leader of the partition writes an abort marker.
    """
    if (transactional_id is None) == (not hanging):
        raise click.UsageError("name a transactional id, or partitions with --hanging")
    if start_offset is not None and not hanging:
        raise click.UsageError("--start-offset needs --hanging")
    if not dry_run:
        require_answer(yes)
    from barnabas.client.blocking.admin import Admin

    with open_cluster(ctx, CLIENT) as cluster:
        admin = Admin(cluster=cluster)
        if transactional_id is not None:
            return _terminate(admin, transactional_id, dry_run, yes)
        return _abort_hanging(admin, hanging, start_offset, dry_run, yes)


def _terminate(admin: "Admin", id_: str, dry_run: bool, yes: bool) -> int:
    from barnabas.client.transactions.transaction_rules import OPEN_STATES
    from barnabas.client.words import listed
    from barnabas.model.words import duration

    described = find_transaction(admin, id_)
    name = printable(id_)
    if described.state not in OPEN_STATES:
        click.echo(
            f"transactional id {name} has no open transaction: its state is {described.state}",
            err=True,
        )
        return exits.OK
    if described.state != "Ongoing":
        what = "commit" if described.state == "PrepareCommit" else "abort"
        click.echo(
            f"barnabas: the {what} of {name} is decided already; broker {described.coordinator}"
            f" writes the markers: see `barnabas txn describe {name}`",
            err=True,
        )
        return exits.OK if what == "abort" else exits.FAILURE
    age = ""
    if described.started_ms is not None:
        import time

        age = f", open for {duration(max(0, time.time_ns() // 1_000_000 - described.started_ms))}"
    click.echo(
        f"transactional id {name}: producer id {described.producer_id}, epoch"
        f" {described.producer_epoch}{age}, in {printable(listed(described.partitions, 8))}.\n"
        f"Its producer will be fenced. Its records, and the offsets that it commits, will be"
        f" discarded.",
        err=True,
    )
    if dry_run:
        return exits.OK
    confirm("abort the transaction", yes)
    admin.force_terminate_transaction(id_)
    click.echo(f"the transaction of {name} is aborted", err=True)
    return exits.OK


def _abort_hanging(
    admin: "Admin", words: tuple[str, ...], start_offset: int | None, dry_run: bool, yes: bool
) -> int:
    from barnabas.client.transactions.transaction_rules import described_briefly

    partitions = [at for at, _ in named_partitions(admin, words)]
    report, found = _hanging(admin, partitions, start_offset)
    if not found:
        return _nothing_hangs(report, partitions, start_offset)
    for one in found:
        click.echo(
            printable(
                f"{one.at}, from offset {one.start_offset}: {described_briefly(one, report)};"
                " no coordinator knows it. An abort marker will be written:"
                " its records will be discarded."
            ),
            err=True,
        )
    if dry_run:
        return exits.OK
    confirm(f"abort {'it' if len(found) == 1 else f'these {len(found)} transactions'}", yes)
    if not yes:
        asked = {(one.at, one.start_offset) for one in found}
        _, found = _hanging(admin, partitions, start_offset)
        found = [one for one in found if (one.at, one.start_offset) in asked]
    for one in found:
        admin.abort_transaction(one.at, one.producer)
        click.echo(
            printable(f"{one.at}: the transaction from offset {one.start_offset} is aborted"),
            err=True,
        )
    return exits.OK


def _hanging(
    admin: "Admin", partitions: "list[TopicPartition]", start_offset: int | None
) -> "tuple[TransactionsReport, list[OpenTransaction]]":
    from barnabas.client.transactions.transaction_rules import Verdict, verdict_of

    report = admin.transactions_report({at.topic for at in partitions})
    return report, [
        one
        for held in report.held
        if held.at in partitions
        for one in held.transactions
        if verdict_of(one, report) is Verdict.HANGING and start_offset in (None, one.start_offset)
    ]


def _nothing_hangs(
    report: "TransactionsReport", partitions: "list[TopicPartition]", start_offset: int | None
) -> int:
    """Says what is open there instead."""
    from barnabas.client.transactions.transaction_rules import (
        abort_command,
        described_briefly,
        verdict_of,
    )

    at_offset = "" if start_offset is None else f" from offset {start_offset}"
    click.echo(f"barnabas: no hanging transaction{at_offset} here", err=True)
    for held in report.held:
        for one in held.transactions if held.at in partitions else ():
            verdict = verdict_of(one, report)
            click.echo(
                printable(
                    f"{held.at}: {described_briefly(one, report)}; what will end it:"
                    f" {verdict.value} (see: {abort_command(one)})"
                ),
                err=True,
            )
    return exits.NOT_FOUND
