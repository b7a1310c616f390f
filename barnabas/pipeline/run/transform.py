"""Finds the user's function that a spec names, and reports its errors in one line."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from barnabas.pipeline.errors import PipelineError


def function(named: str) -> Any:
    """`module:function`, looked for in the working directory too."""
    module, _, name = named.partition(":")
    look_here()
    try:
        found = getattr(import_module(module), name)
    except ImportError as problem:
        raise PipelineError(
            f"transform: {named!r}: {problem}; run it in the directory of {module}"
        ) from None
    except AttributeError:
        raise PipelineError(f"transform: {named!r}: {module} has no function {name}") from None
    except (Exception, SystemExit) as problem:  # the module may raise anything
        raise PipelineError(
            f"transform: {named!r}: {module} cannot be imported: {error_line(problem)}"
        ) from problem
    if not callable(found):
        raise PipelineError(f"transform: {named!r} is not a function")
    return found


def error_line(problem: BaseException) -> str:
    """An error of the user's code in one line, with file and line number."""
    said = " ".join(f"{type(problem).__name__}: {problem}".split())
    if isinstance(problem, SyntaxError):  # it names the file and the line itself
        return said
    where = problem.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    return (
        said if where is None else f"{said}, {where.tb_frame.f_code.co_filename}:{where.tb_lineno}"
    )


def look_here() -> None:
    """Adds the working directory to the path: an installed command does not search it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
