"""`barnabas txn`: list, describe, explain and abort transactions."""

import click

from barnabas.cli.command_group import NamedCommands
from barnabas.cli.options import cluster_options, open_admin
from barnabas.cli.render import chosen_output, output_option, render, write_document
from barnabas.cli.transactions.abort import abort
from barnabas.cli.transactions.arguments import find_transaction, id_argument

_HISTORIES_MAX = 1_000
_LISTED = ("Ongoing", "PrepareCommit", "PrepareAbort")


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
@cluster_options
def command() -> None:
    """List, describe and explain transactions; abort one."""


command.add_command(abort)


@command.command("ls")
@click.option("-a", "--all", "every", is_flag=True, help="Also ids without an open transaction.")
@output_option
@cluster_options
@click.pass_context
def list_(ctx: click.Context, every: bool, output: str) -> None:
    """List open transactions: since when, where, and which readers wait for them."""
    from barnabas.client.transactions.text import CSV_COLUMNS, LIST_COLUMNS, list_rows, shown_row

    with open_admin(ctx) as admin:
        listed = admin.list_transactions(states=() if every else _LISTED)
        described = admin.describe_transactions(
            [each.transactional_id for each in listed],
            coordinators={each.transactional_id: each.coordinator for each in listed},
        )
        report = admin.transactions_report()
        histories = admin.transaction_histories(list(described)[:_HISTORIES_MAX])
    rows = list_rows(described.values(), report, histories)
    if chosen_output(output) == "table":
        columns = [name for name in LIST_COLUMNS if name != "client" or histories]
        render([shown_row(row) for row in rows], columns, output)
    else:
        render(rows, CSV_COLUMNS, output)


@command.command()
@id_argument()
@output_option
@cluster_options
@click.pass_context
def describe(ctx: click.Context, transactional_id: str, output: str) -> None:
    """Show a transactional id: state, producer, timeout, partitions, waiting consumers."""
    from barnabas.client.transactions.text import (
        CSV_COLUMNS,
        description,
        description_row,
        held_by,
        history_document,
    )

    with open_admin(ctx) as admin:
        described = find_transaction(admin, transactional_id)
        report = admin.transactions_report({at.topic for at in described.partitions})
        history = admin.transaction_histories([transactional_id]).get(transactional_id)
        brokers = {each.id: each for each in admin.cluster().brokers}
    output = chosen_output(output)
    if output == "table":
        broker = brokers.get(described.coordinator)
        address = "" if broker is None else f" ({broker.address})"
        coordinator = f"{described.coordinator}{address}"
        click.echo(description(described, report, coordinator, history), nl=False)
        return
    row = description_row(described, report, held_by(report).get(transactional_id, ()))
    if output == "csv":
        render([row], CSV_COLUMNS, output)
    else:
        write_document({**row, **history_document(history)}, output)


@command.command()
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@output_option
@cluster_options
@click.pass_context
def explain(ctx: click.Context, topics: tuple[str, ...], output: str) -> None:
    """Explain why read_committed consumers wait, and what to do. Default: all topics."""
    from barnabas.cli.topic import find_topic
    from barnabas.client.transactions.text import findings_document, findings_text
    from barnabas.client.transactions.transaction_rules import diagnose_transactions

    with open_admin(ctx) as admin:
        for topic in topics:
            find_topic(admin, topic)
        report = admin.transactions_report(topics or None)
    findings = diagnose_transactions(report)
    output = chosen_output(output)
    if output == "table":
        click.echo(findings_text(report, findings), nl=False)
    elif output == "csv":
        rows = findings_document(report, findings)["findings"]
        render(rows, ["name", "severity", "text", "remedy"], output)
    else:
        write_document(findings_document(report, findings), output)
