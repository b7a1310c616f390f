"""`barnabas sql`: ask topics questions."""

import asyncio
from contextlib import aclosing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.looking.query_file import (
    BINARY,
    FORMATS,
    check_terminal,
    format_of,
    into_file,
    own_stdout,
)
from barnabas.cli.options import client_config, client_settings, cluster_options
from barnabas.cli.render import chosen_output, output_option_of, render

if TYPE_CHECKING:
    from barnabas.sql.running import QueryRequest


REGISTRY_WORKER = "barnabas.pipeline.formats.sql_worker"


@click.command()
@click.argument("query")
@click.option(
    "--follow", is_flag=True, help="Keep running and show new rows; only for a query that filters."
)
@click.option("--explain", is_flag=True, help="Show which offsets would be read, and read none.")
@click.option(
    "--max-records", type=click.IntRange(1), default=10_000_000, show_default=True,
    help="Read at most this many records, the newest.",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(0.1, 86_400), default=60.0, show_default=True,
    help="End the query after this many seconds.",
)  # fmt: skip
@click.option(
    "--as-of", metavar="TIME",
    help="Read topics as they were at TIME: they end before the first record that is not older.",
)  # fmt: skip
@click.option(
    "--registry", metavar="URL",
    help="A schema registry: keys and values that name their schema (Avro, Protobuf, JSON) are "
    "read as JSON. Requires pip install 'barnabas[schemas]'.",
)  # fmt: skip
@click.option(
    "--lake", "lakes", multiple=True, type=click.Path(exists=True, dir_okay=False),
    help="The spec of a pipeline: a query of its topic reads the table, then newer records.",
)  # fmt: skip
@click.option(
    "--output-file", "path", metavar="FILE", type=click.Path(dir_okay=False),
    help="Write the result to this file, and replace an older one. Without --output, the ending "
    "of its name is the format: .csv, .json, .jsonl, .arrow or .parquet.",
)  # fmt: skip
@output_option_of(
    FORMATS, "The output format; arrow (an IPC stream) and parquet keep the types of the columns."
)
@cluster_options
@click.pass_context
def command(
    ctx: click.Context,
    query: str,
    follow: bool,
    explain: bool,
    max_records: int,
    timeout: float,
    as_of: str | None,
    registry: str | None,
    lakes: tuple[str, ...],
    path: str | None,
    output: str,
) -> int:
    """Run a query over topics, with DuckDB, in a process of its own.

    A table is a topic, with the columns key, value, topic, partition, offset, timestamp and
    headers, then the fields of JSON values. latest('TOPIC') has the last record of each key.
    """
    for name in ("duckdb", "pyarrow", *(("pyspark", "yaml") if lakes else ())):
        if find_spec(name) is None:
            extras = "spark,sql" if lakes else "sql"
            raise click.ClickException(f"{name} is not installed: pip install 'barnabas[{extras}]'")
    from barnabas.model.times import parse_time
    from barnabas.sql.running import QueryRequest

    if as_of is not None and (follow or lakes):
        raise click.UsageError("--as-of: not with --follow or --lake")
    if registry is not None and lakes:
        raise click.UsageError("--registry: not with --lake, whose spec names the format")
    if registry is not None and not registry.startswith(("http://", "https://")):
        raise click.UsageError(f"--registry {registry[:200]}: expected http://HOST:PORT")
    try:
        as_of_ms = None if as_of is None else parse_time(as_of)
    except ValueError as problem:
        raise click.UsageError(f"--as-of: {problem}") from None
    output = chosen_output(output)
    if path is not None and output == "table":
        output = format_of(path)
    if path is not None and follow:
        raise click.UsageError("--output-file: not with --follow; redirect the output instead")
    if output in BINARY and (follow or explain):
        raise click.UsageError(f"--output {output}: not with --follow or --explain")
    if path is None:
        check_terminal(output)
    client_config(ctx)
    request = QueryRequest(
        query,
        client_settings(ctx),
        follow=follow,
        explain=explain,
        records_max=max_records,
        rows_max=1 << 40,
        seconds_max=timeout,
        as_of_ms=as_of_ms,
        registry=registry or "",
        lakes=list(lakes),
        save_as=output if output in BINARY else "",
    )

    def write(fd: int = -1) -> int:
        return asyncio.run(_show(request, output, fd))

    if path is not None:
        return into_file(path, write)
    if not request.save_as:
        return write()
    with own_stdout() as fd:
        return write(fd)


async def _show(request: "QueryRequest", output: str, fd: int) -> int:
    """`fd`: where the worker writes a binary result."""
    from barnabas.sql.running import WORKER, run_query

    request.save_fd = fd
    worker = REGISTRY_WORKER if request.registry else WORKER
    worker = "barnabas.pipeline.lake.sql_worker" if request.lakes else worker
    columns: list[str] = []
    rows: list[dict[str, Any]] = []
    async with aclosing(run_query(request, worker)) as lines:
        async for line in lines:
            if "error" in line:
                click.echo(f"barnabas: {line['error']}", err=True)
                return exits.FAILURE
            if "note" in line:
                click.echo(f"barnabas: {line['note']}", err=True)
            if "plan" in line and request.explain:
                columns = ["topic", "partition", "from", "to", "records"]
                rows += _plan_rows(line["plan"])
                if "files" in line["plan"]:
                    click.echo(f"barnabas: {line['plan']['files']}", err=True)
            if "columns" in line:
                columns = line["columns"]
            if isinstance(line.get("rows"), list):
                rows += [dict(zip(columns, row, strict=True)) for row in line["rows"]]
            if request.follow and rows:
                render(rows, columns, "jsonl" if output == "table" else output)
                rows = []
    if not request.save_as:
        render(rows, columns, output)
    return exits.OK


def _plan_rows(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "topic": plan["topic"],
            "partition": int(number),
            "from": start,
            "to": stop,
            "records": stop - start,
        }
        for number, (start, stop) in sorted(plan["ranges"].items(), key=lambda each: int(each[0]))
    ]
