"""`barnabas pipeline serve`: pipelines that topics ask for. `backfill`: records of the past."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from barnabas.cli import exits
from barnabas.cli.pipelines.errors import fails_in_lines
from barnabas.cli.up import HostAndPort
from barnabas.config.kinds import Address

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Moment(click.ParamType[int]):
    """A time as ISO 8601, in UTC unless it says otherwise; in milliseconds since 1970."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r}: expected a time such as 2026-01-31 or 2026-01-31T12:00")
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
        return int(found.timestamp() * 1000)


@click.command("serve")
@click.argument("template", type=_FILE)
@click.option(
    "--metrics", type=HostAndPort(), help="Serve Prometheus metrics of all pipelines on this"
    " address.",
)  # fmt: skip
@fails_in_lines
def serve(template: Path, metrics: Address | None) -> int:
    """Run a pipeline for every topic with the option lake=iceberg or lake=delta, until stopped.

    TEMPLATE says where the brokers, the tables and the checkpoints are.
    """
    from contextlib import ExitStack

    from barnabas.pipeline.managed.serving import LakeServer, load_template
    from barnabas.pipeline.run.metrics import served
    from barnabas.pipeline.run.session import session
    from barnabas.pipeline.run.stopping import StopRequest, heeding

    loaded = load_template(template)
    stop = StopRequest()

    def spark() -> Any:
        found = session(loaded.master, name="barnabas-lakes", options=loaded.options)
        restored.enter_context(heeding(stop.ask))  # Spark has replaced the signal handlers
        return found

    with ExitStack() as restored, heeding(stop.ask):
        server = LakeServer(loaded, spark, lambda line: click.echo(line, err=True))
        at = ""
        if metrics is not None:
            host = metrics.host or "127.0.0.1"
            at = f", metrics at {restored.enter_context(served(server.runs, host, metrics.port))}"
        click.echo(f"serving the lakes of {loaded.servers}{at}")
        server.serve(stop)
    return exits.OK


@click.command("backfill")
@click.argument("spec", type=_FILE)
@click.option(
    "--since", type=Moment(), required=True, help="Records from this time on, e.g. 2026-01-31."
)
@click.option("--until", type=Moment(), required=True, help="Records before this time.")
@fails_in_lines
def backfill_(spec: Path, since: int, until: int) -> int:
    """Add the records of a range of time that a table does not have, in one commit.

    SPEC is the spec of a lake in Delta or Iceberg, which may run meanwhile. Running it again adds
    nothing.
    """
    from barnabas.pipeline.lake.backfill import backfill, backfill_spec
    from barnabas.pipeline.run.roster import enrolled
    from barnabas.pipeline.run.running import session_of
    from barnabas.pipeline.run.spec import load

    if until <= since:
        raise click.UsageError("--until must be later than --since")
    loaded = load(spec)
    with enrolled(backfill_spec(loaded), spec) as entry:
        spark = session_of(loaded)
        try:
            added = backfill(loaded, spark, since, until, lambda line: click.echo(line, err=True))
        except BaseException as problem:
            entry.ended(str(problem))
            raise
        finally:
            spark.stop()
        entry.ended(None)
    click.echo(f"{loaded.name}: {added} rows added")
    return exits.OK
