"""Modules as they are without a compiler, whatever was compiled beside them."""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest


def from_source(name: str) -> Any:
    """`name` as in an import. Not put among the imported ones: nobody else sees it."""
    package, _, module_name = name.rpartition(".")
    found = find_spec(package)
    assert found is not None
    assert found.submodule_search_locations is not None
    source = Path(found.submodule_search_locations[0]) / f"{module_name}.py"
    spec = spec_from_file_location(name, source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flavours(plain: Any, imported: Any) -> list[Any]:
    """For tests that go over a module twice: as it is, and as it was compiled."""
    compiled = () if imported.COMPILED else pytest.mark.skip(f"{imported.__name__} is not compiled")
    return [
        pytest.param(plain, id="plain"),
        pytest.param(imported, id="compiled", marks=compiled),
    ]
