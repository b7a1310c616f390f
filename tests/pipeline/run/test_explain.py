"""Why a pipeline is behind, from what can be seen of it."""

from typing import Any

import pytest

from barnabas.pipeline.run.explain import PipelineView, explained


def view(**changed: Any) -> PipelineView:
    given: dict[str, Any] = {
        "name": "orders",
        "running": True,
        "rows_per_s": 1000.0,
        "batch_ms": 10_000,
        "interval_ms": 10_000,
        "arriving_per_s": 2000.0,
        "lags": {"o-0": 100_000, "o-1": 100_000},
        "cores": 2,
    }
    return PipelineView(**{**given, **changed})


def test_a_pipeline_that_has_what_one_trigger_brings_is_not_behind() -> None:
    found = explained(view(lags={"o-0": 10_000, "o-1": 20_000}))
    assert (found.fine, found.cause) == (True, None)
    assert found.lines[0] == "it is not behind"


def test_a_pipeline_that_is_faster_than_its_input_says_when_it_is_done() -> None:
    found = explained(view(rows_per_s=4000.0))
    assert found.fine
    assert found.lines[0] == "it is behind, and catches up in about 100 s"


@pytest.mark.parametrize(
    ("changed", "cause", "said"),
    [
        ({"lags": {"o-0": 190_000, "o-1": 10_000}}, "skew", "o-0 has 95% of the waiting records"),
        ({"phases_ms": {"source": 6000}}, "source", "60% of the batch is spent asking"),
        ({"phases_ms": {"files": 3000, "commit": 5000}}, "store", "50% of the batch is the commit"),
        (
            {"phases_ms": {"plan": 3000, "log": 2000}},
            "small batches",
            "50% of the batch is",
        ),
        ({"cores": 8}, "too few tasks", "set source.options.minPartitions to 8"),
        ({"phases_ms": {"files": 9000}}, "function", "use more cores"),
        ({"batch_ms": 0}, "start", "no batch has ended yet"),
    ],
)
def test_a_pipeline_that_falls_back_has_a_cause(
    changed: dict[str, Any], cause: str, said: str
) -> None:
    found = explained(view(**changed))
    assert not found.fine
    assert found.cause == cause
    assert said in found.lines[-1]


def test_a_pipeline_that_does_not_run_says_why() -> None:
    found = explained(view(running=False, error="no topic"))
    assert not found.fine
    assert found.lines[0] == "it does not run: no topic"
