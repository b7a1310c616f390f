"""`barnabas pipeline explain`: why a pipeline is behind."""

import re
import time
from typing import TYPE_CHECKING

import click

from barnabas.cli import exits
from barnabas.cli.pipelines.errors import fails_in_lines

if TYPE_CHECKING:
    from barnabas.pipeline.run.explain import PipelineView

_LOCAL = re.compile(r"local\[(\d+)\]")


@click.command("explain")
@click.argument("name")
@click.option(
    "--seconds", type=click.FloatRange(0.1, 60), default=2.0, show_default=True,
    help="How long to count the records that arrive.",
)  # fmt: skip
@fails_in_lines
def explain(name: str, seconds: float) -> int:
    """Say whether a pipeline of this machine is behind, and why.

    Exits with 1 if it does not run, or is behind and does not catch up: use it as an alert.
    """
    from barnabas.pipeline.run.explain import explained

    verdict = explained(_view(name, seconds))
    for line in verdict.lines:
        click.echo(f"{name}: {line}")
    return exits.OK if verdict.fine else exits.FAILURE


def _view(name: str, seconds: float) -> "PipelineView":
    from pathlib import Path

    from barnabas.pipeline.errors import PipelineError
    from barnabas.pipeline.run.explain import PipelineView
    from barnabas.pipeline.run.roster import RUNNING, entry_of
    from barnabas.pipeline.run.spec import load
    from barnabas.pipeline.run.spec_source import source_of
    from barnabas.pipeline.spark.brokers import Brokers
    from barnabas.pipeline.spark.options import source_options

    entry = entry_of(name)
    spec = load(Path(entry.spec))
    if spec.kind == "mirror":
        raise PipelineError(f"{name} is a mirror: barnabas group describe shows its lag")
    brokers = Brokers(source_options(source_of(spec), streaming=True))
    partitions = brokers.partitions()
    before, begun = brokers.latest(partitions, {}), time.monotonic()
    time.sleep(seconds)
    ends, took_s = brokers.latest(partitions, {}), time.monotonic() - begun
    done, firsts = brokers.committed(entry.group, partitions), brokers.earliest(partitions)
    arrived = sum(ends[at] - before[at] for at in partitions)
    local = _LOCAL.fullmatch(spec.run.master)
    return PipelineView(
        name=name,
        running=entry.state == RUNNING,
        rows_per_s=entry.rows_per_s,
        batch_ms=entry.batch_ms,
        interval_ms=spec.run.interval_ms or 0,
        arriving_per_s=arrived / took_s,
        lags={str(at): max(ends[at] - done.get(at, (firsts[at], ""))[0], 0) for at in partitions},
        cores=int(local[1]) if local else None,
        phases_ms=entry.phases_ms,
        error=entry.error,
    )
