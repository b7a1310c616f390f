"""Finds the function of the user that a spec names, and says in one line what is wrong with it."""

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
        raise PipelineError(f"transform: {named!r}: {problem}; run it where {module} is") from None
    except AttributeError:
        raise PipelineError(f"transform: {named!r}: {module} has no function {name}") from None
    except (Exception, SystemExit) as problem:  # whatever stands in it
        raise PipelineError(
            f"transform: {named!r}: {module} cannot be imported: {error_line(problem)}"
        ) from problem
    if not callable(found):
        raise PipelineError(f"transform: {named!r} is no function")
    return found


def error_line(problem: BaseException) -> str:
    """An error of the user's code in one line, with the place it is in."""
    said = " ".join(f"{type(problem).__name__}: {problem}".split())
    if isinstance(problem, SyntaxError):  # says where, and has no place of its own
        return said
    where = problem.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    return (
        said if where is None else f"{said}, {where.tb_frame.f_code.co_filename}:{where.tb_lineno}"
    )


def look_here() -> None:
    """Modules may be in the working directory, also of an installed command."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
