"""The record loops twice: as plain Python, and compiled where that was possible."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import barnabas.wire
from barnabas.wire import records as imported


def _plain() -> Any:
    source = Path(barnabas.wire.__path__[0]) / "records.py"
    # The same name, so that pickles of its records find their class.
    spec = spec_from_file_location("barnabas.wire.records", source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FLAVOUR_MODULES: tuple[Any, Any] = (_plain(), imported)
FLAVOURS = [
    pytest.param(FLAVOUR_MODULES[0], id="plain"),
    pytest.param(
        imported,
        id="compiled",
        marks=() if imported.COMPILED else pytest.mark.skip("the record loops are not compiled"),
    ),
]
