"""How commands of pipelines fail: lines on stderr, and an exit code."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec

import click

from barnabas.cli import exits

if TYPE_CHECKING:
    from barnabas.pipeline.errors import PipelineError

P = ParamSpec("P")


def fails_in_lines(command: Callable[P, int]) -> Callable[P, int]:
    """Let a command end with the lines and the exit code of a PipelineError, without a trace."""

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> int:
        from barnabas.pipeline.errors import PipelineError

        try:
            return command(*args, **kwargs)
        except PipelineError as problem:
            return report(problem)

    return guarded


def report(problem: "PipelineError") -> int:
    """Print the error. Returns the exit code for it."""
    from barnabas.pipeline.run.spec import SpecError

    for line in str(problem).splitlines():
        click.echo(f"barnabas: {line}", err=True)
    return exits.USAGE if isinstance(problem, SpecError) else exits.exit_code_by(problem.code)
