"""`records` twice: over the plain loops, and over the compiled ones where they were compiled."""

import sys
from typing import Any
from unittest.mock import patch

import barnabas.wire
from barnabas.wire import records as imported
from tests.plain import flavours, from_source


def _plain() -> Any:
    loops = from_source("barnabas.wire.record_loops")
    with (
        patch.dict(sys.modules, {"barnabas.wire.record_loops": loops}),
        patch.object(barnabas.wire, "record_loops", loops),
    ):
        writer = from_source("barnabas.wire.record_writer")
        with patch.dict(sys.modules, {"barnabas.wire.record_writer": writer}):
            records = from_source("barnabas.wire.records")
    assert not records.COMPILED
    return records


FLAVOUR_MODULES: tuple[Any, Any] = (_plain(), imported)
FLAVOURS = flavours(*FLAVOUR_MODULES)
