"""`barnabas pipeline`: run or check a spec, and manage running pipelines."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli import exits
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.pipelines.alerts import alerts
from barnabas.cli.pipelines.errors import fails_in_lines
from barnabas.cli.pipelines.explain import explain
from barnabas.cli.pipelines.roster import ls, status, stop_
from barnabas.cli.pipelines.serving import backfill_, serve
from barnabas.cli.pipelines.spark_cluster import cluster
from barnabas.cli.up import HostAndPort
from barnabas.config.kinds import Address

if TYPE_CHECKING:
    from barnabas.pipeline.run.roster import Enrolled
    from barnabas.pipeline.run.spec import Spec
    from barnabas.pipeline.run.stopping import StopRequest

_SPEC = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
def command() -> None:
    """Run a pipeline on Spark: a stream, a lake or a mirror that a YAML file describes."""


command.add_command(ls)
command.add_command(status)
command.add_command(stop_)
command.add_command(cluster)
command.add_command(explain)
command.add_command(alerts)
command.add_command(serve)
command.add_command(backfill_)


@command.command("run")
@click.argument("spec", type=_SPEC)
@click.option(
    "--metrics", type=HostAndPort(), help="Serve Prometheus metrics of the run on this address."
)
@fails_in_lines
def run_(spec: Path, metrics: Address | None) -> int:
    """Run a pipeline until it has processed all current records, or until it is stopped.

    Ctrl-C, SIGTERM or `barnabas pipeline stop` let it finish its batch; a
    second signal ends it at once.
    """
    from barnabas.pipeline.errors import PipelineError, from_spark
    from barnabas.pipeline.run.roster import enrolled
    from barnabas.pipeline.run.stopping import StopRequest, heeding

    loaded = _loaded(spec)
    stop = StopRequest()
    with heeding(stop.ask), enrolled(loaded, spec) as entry:
        try:
            _run(loaded, metrics, entry, stop)
        except Exception as problem:
            short = problem if isinstance(problem, PipelineError) else from_spark(problem)
            entry.ended(str(short or problem))
            if short is None:
                raise
            raise short from None
        except BaseException as problem:
            entry.ended(type(problem).__name__)
            raise
        entry.ended(None)
    return exits.OK


def _run(spec: "Spec", metrics: Address | None, entry: "Enrolled", stop: "StopRequest") -> None:
    from contextlib import ExitStack

    from barnabas.cli.pipelines.terminal import Terminal
    from barnabas.pipeline.run.metrics import MeasuredRun, served
    from barnabas.pipeline.run.plan import planned
    from barnabas.pipeline.run.progress import Progress
    from barnabas.pipeline.run.running import run_spec, session_of
    from barnabas.pipeline.run.stopping import heeding

    progress = Progress()
    terminal = Terminal(spec.name, progress)
    with ExitStack() as stack:
        address = None
        if metrics is not None:
            run = MeasuredRun(spec.name, progress, spec.run.interval_ms)
            address = stack.enter_context(
                served(lambda: [run], metrics.host or "127.0.0.1", metrics.port)
            )
        entry.follow(progress, address)
        list(planned(spec))  # most mistakes are found in a second, before Spark has started
        stack.enter_context(terminal)
        spark = session_of(spec)
        stack.callback(spark.stop)
        with heeding(stop.ask):  # Spark has replaced the signal handlers
            run_spec(spec, say=terminal.note, spark=spark, progress=progress, stop=stop)
        terminal.summary(stopped=stop.asked)


@command.command("dry-run")
@click.argument("spec", type=_SPEC)
@fails_in_lines
def dry_run(spec: Path) -> int:
    """Check a spec and ask the brokers for its topics; change nothing."""
    from barnabas.pipeline.run.plan import planned

    for line in planned(_loaded(spec)):
        click.echo(line)
    return exits.OK


@command.command("submit", context_settings={"ignore_unknown_options": True})
@click.argument("spec", type=_SPEC)
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[SPARK-SUBMIT OPTIONS]...")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    help="Do not submit. Write the files to this directory and print the spark-submit command.",
)
@fails_in_lines
def submit_(spec: Path, more: tuple[str, ...], into: Path | None) -> int:
    """Send a pipeline to YARN, Kubernetes or a Spark cluster, by spark-submit.

    The barnabas package is sent too. On YARN and Kubernetes the driver runs in the cluster.
    Unknown options are passed to spark-submit: --queue etl, --driver-memory 2g.
    """
    import shlex
    import tempfile
    from contextlib import ExitStack, nullcontext

    from barnabas.pipeline.run.plan import planned
    from barnabas.pipeline.run.session import check_java, check_master, python_of, spark_home
    from barnabas.pipeline.run.submit import prepare, submit, submit_command
    from barnabas.pipeline.spark.worker_start import unzipped

    loaded = _loaded(spec)
    with ExitStack() as stack:
        where = into
        if where is None:
            check_java()
            made = tempfile.TemporaryDirectory(prefix="barnabas-submit-")
            where = Path(stack.enter_context(made))
        where = where.resolve()
        given = submit_command(loaded, where, more)
        where.mkdir(parents=True, exist_ok=True)
        prepare(spec, loaded, where)
        if into is not None:
            click.echo(shlex.join(given))
            return exits.OK
        # Local drivers use this Python's pyspark; others use the one in Spark's zip.
        stays = loaded.run.master.startswith("spark://")
        if stays:
            check_master(loaded.run.master)
            list(planned(loaded))  # as in `run`: most mistakes are found in a second
        python = python_of(loaded.run.options)
        with unzipped(spark_home(), python) if stays else nullcontext():
            return submit(given, click.echo, lambda line: click.echo(line, err=True))


@command.command("package")
@click.argument("path", metavar="FILE.tar", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--module", "modules", multiple=True, help="A module to include; repeat the option for several."
)
@fails_in_lines
def package_(path: Path, modules: tuple[str, ...]) -> int:
    """Write an archive of this package for executors: spark-submit --archives."""
    from barnabas.pipeline.run.package import write_package

    write_package(path, modules)
    return exits.OK


def _loaded(path: Path) -> "Spec":
    from barnabas.pipeline.run.spec import load

    return load(path)
