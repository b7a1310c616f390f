"""`barnabas pipeline cluster up`: a Spark cluster on this machine, for trying things out."""

import signal

import click

from barnabas.cli import exits
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.pipelines.errors import fails_in_lines
from barnabas.cli.up import HostAndPort
from barnabas.config.kinds import Address


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
def cluster() -> None:
    """Run a Spark cluster here: a master and workers, from the pyspark that is installed."""


@cluster.command("up")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True,
              help="Number of workers.")  # fmt: skip
@click.option("--cores", type=click.IntRange(1, 256), default=1, show_default=True,
              help="Cores per worker.")  # fmt: skip
@click.option("--memory", metavar="SIZE", default="1g", show_default=True,
              help="Memory per worker for executors.")  # fmt: skip
@click.option("--listen", type=HostAndPort(), default="127.0.0.1:7077", show_default=True,
              help="Port 0 picks one. Anyone who can reach it can run programs.")  # fmt: skip
@fails_in_lines
def up(workers: int, cores: int, memory: str, listen: Address) -> int:
    """Run a master and workers, in the foreground.

    Prints one line with the address for `run.master` when all workers have joined. Ctrl-C or
    SIGTERM stops it cleanly.
    """
    from barnabas.pipeline.run.standalone import standalone
    from barnabas.pipeline.run.stopping import StopRequest

    if not memory[:-1].isdigit() or memory[-1] not in "mg":
        raise click.BadParameter(
            f"{memory!r}: expected a size such as 512m or 2g", param_hint="--memory"
        )
    stop = StopRequest()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.ask())
    with standalone(
        host=listen.host or "127.0.0.1",
        port=listen.port,
        workers=workers,
        cores=cores,
        memory=memory,
        stop=stop,
    ) as running:
        click.echo(f"spark ready on {running.master} ({workers} workers, {cores} cores each)")
        running.watch(stop)
    return exits.OK
