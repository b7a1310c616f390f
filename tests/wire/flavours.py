"""`records` twice: over the plain loops, and over the compiled ones where they were compiled."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import barnabas.wire
from barnabas.wire import records as imported


def from_source(name: str) -> Any:
    """The plain module, whatever was compiled beside it."""
    source = Path(barnabas.wire.__path__[0]) / f"{name}.py"
    spec = spec_from_file_location(f"barnabas.wire.{name}", source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _plain() -> Any:
    loops = from_source("record_loops")
    with (
        patch.dict(sys.modules, {"barnabas.wire.record_loops": loops}),
        patch.object(barnabas.wire, "record_loops", loops),
    ):
        records = from_source("records")
    assert not records.COMPILED
    return records


FLAVOUR_MODULES: tuple[Any, Any] = (_plain(), imported)
FLAVOURS = [
    pytest.param(FLAVOUR_MODULES[0], id="plain"),
    pytest.param(
        FLAVOUR_MODULES[1],
        id="compiled",
        marks=() if imported.COMPILED else pytest.mark.skip("the record loops are not compiled"),
    ),
]
