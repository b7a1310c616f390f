"""`barnabas pipeline`: run what a spec says, or say what it would do."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli import exits
from barnabas.cli.groups import NamedCommands

if TYPE_CHECKING:
    from barnabas.pipeline.spec import Spec

_SPEC = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
def command() -> None:
    """Run a pipeline on Spark: a stream, a lake or a mirror, as a spec in YAML says."""


@command.command("run")
@click.argument("spec", type=_SPEC)
def run_(spec: Path) -> int:
    """Run a pipeline, until all there is now is done, or until it is stopped."""
    from barnabas.pipeline.errors import PipelineError, shown
    from barnabas.pipeline.running import run_spec

    try:
        run_spec(_loaded(spec), say=lambda line: click.echo(line, err=True))
    except PipelineError as problem:
        return _failed(problem)
    except Exception as problem:  # Spark's errors are Java's, in many lines
        line = shown(problem)
        if line is None:
            raise
        click.echo(f"barnabas: {line}", err=True)
        return exits.FAILURE
    return exits.OK


@command.command("dry-run")
@click.argument("spec", type=_SPEC)
def dry_run(spec: Path) -> int:
    """Check a spec and ask the brokers for its topics; change nothing."""
    from barnabas.pipeline.errors import PipelineError
    from barnabas.pipeline.planning import planned

    try:
        for line in planned(_loaded(spec)):
            click.echo(line)
    except PipelineError as problem:
        return _failed(problem)
    return exits.OK


def _loaded(path: Path) -> "Spec":
    from barnabas.pipeline.spec import load

    return load(path)


def _failed(problem: Exception) -> int:
    for line in str(problem).splitlines():
        click.echo(f"barnabas: {line}", err=True)
    return exits.FAILURE
