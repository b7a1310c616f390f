"""The identity of a batch: the same for each repetition, another one for other records."""

from pathlib import Path

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark.planned_batch import planned_batch, query_id


def plan(checkpoint: Path, number: int, *sources: str, time_ms: int = 1) -> None:
    offsets = checkpoint / "offsets"
    offsets.mkdir(exist_ok=True)
    lines = ["v1", f'{{"batchTimestampMs":{time_ms}}}', *sources]
    (offsets / str(number)).write_text("\n".join(lines))


def test_a_batch_is_known_by_where_it_begins_and_ends(tmp_path: Path) -> None:
    plan(tmp_path, 0, '{"t":{"0":5}}')
    plan(tmp_path, 1, '{"t":{"0":9}}', "-")
    first = planned_batch(str(tmp_path), 1)
    assert (first.number, first.note) == (1, '{"t":{"0":9}} -')
    plan(tmp_path, 1, '{"t":{"0":9}}', "-", time_ms=2)  # planned again at another time
    assert planned_batch(f"file:{tmp_path}", 1) == first
    assert planned_batch(str(tmp_path), 1, "salt").identity != first.identity
    plan(tmp_path, 1, '{"t":{"0":10}}', "-")
    assert planned_batch(str(tmp_path), 1).identity != first.identity
    plan(tmp_path, 1, '{"t":{"0":9}}', "-")
    plan(tmp_path, 0, '{"t":{"0":6}}')
    assert planned_batch(str(tmp_path), 1).identity != first.identity


def test_without_a_checkpoint_only_the_number_identifies_a_batch(tmp_path: Path) -> None:
    for checkpoint in (None, str(tmp_path), "nowhere://x/y"):
        assert planned_batch(checkpoint, 3) == (3, "", "")


def test_a_long_note_is_left_out(tmp_path: Path) -> None:
    plan(tmp_path, 0, "x" * 20_000)
    found = planned_batch(str(tmp_path), 0)
    assert found.note == ""
    assert found.identity


def test_the_query_is_in_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"q"}')
    assert query_id(str(tmp_path)) == "q"
    for broken in ("", "{}", '{"id":7}', "[]"):
        (tmp_path / "metadata").write_text(broken)
        with pytest.raises(PipelineError, match="checkpointLocation"):
            query_id(str(tmp_path))
