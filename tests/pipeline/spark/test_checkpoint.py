"""What a pipeline keeps in its checkpoint, and what its batches stand for. No Spark runs here."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from barnabas.model.ids import TopicPartition as At
from barnabas.pipeline.errors import DataLoss, PipelineError
from barnabas.pipeline.spark.checkpoint import Checkpoint
from barnabas.pipeline.spark.files import LocalDirectory

OLD, NEW = UUID(int=1), UUID(int=2)
START = {At("orders", 0): 7}


def claimed(path: Path, **changed: Any) -> Checkpoint:
    given = {"pipeline": "p", "topics": {"orders": OLD}, "begin": lambda: START, **changed}
    loss = given.pop("fail_on_data_loss", True)
    found = Checkpoint(LocalDirectory(str(path)))
    found.claim(**given, fail_on_data_loss=loss)
    return found


def plan(path: Path, number: int, end: int) -> None:
    file = path / "lake" / "offsets" / str(number)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'v1\n{{}}\n{{"orders":{{"0":{end}}}}}')


def none() -> dict[str, UUID]:
    raise AssertionError("all topics are known")


def test_a_checkpoint_begins_once(tmp_path: Path) -> None:
    """Nothing new came in the first run: the second one begins there, not at the new end."""
    assert claimed(tmp_path).began == START
    assert claimed(tmp_path, begin=none).began == START


def test_a_batch_is_known_by_its_offsets_and_the_ids_of_its_topics(tmp_path: Path) -> None:
    found = claimed(tmp_path)
    plan(tmp_path, 0, 10)
    plan(tmp_path, 1, 20)
    first, second = (found.identity("lake", "q", number, none) for number in (0, 1))
    assert (first.start, first.end) == (START, {At("orders", 0): 10})
    assert (second.start, second.end) == ({At("orders", 0): 10}, {At("orders", 0): 20})
    assert second.topic_ids == {"orders": str(OLD)}
    with pytest.raises(PipelineError, match="lake/offsets/2 is missing"):
        found.identity("lake", "q", 2, none)


def test_topics_that_came_later_are_looked_up(tmp_path: Path) -> None:
    found = claimed(tmp_path, topics={})
    plan(tmp_path, 0, 10)
    assert found.identity("lake", "q", 0, lambda: {"orders": NEW}).topic_ids == {"orders": str(NEW)}


def test_another_pipeline_and_a_topic_that_was_created_again_are_refused(tmp_path: Path) -> None:
    claimed(tmp_path)
    with pytest.raises(PipelineError, match="belongs to pipeline 'p'"):
        claimed(tmp_path, pipeline="other")
    with pytest.raises(DataLoss, match="'orders' was deleted and created again"):
        claimed(tmp_path, topics={"orders": NEW})
    found = claimed(tmp_path, topics={"orders": NEW}, fail_on_data_loss=False)
    assert found.topic_ids == {"orders": str(NEW)}


def test_its_file_survives_a_kill_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owner and ids are never lost: before, the file was deleted, then another one renamed."""
    import os

    claimed(tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, killed)
            with pytest.raises(KeyboardInterrupt):
                claimed(tmp_path, topics={"orders": OLD, "more": NEW})
        noted = json.loads((tmp_path / "barnabas.json").read_text())
        assert (noted["pipeline"], noted["topics"]) == ("p", {"orders": str(OLD)})


def test_names_of_directories_are_not_patterns(tmp_path: Path) -> None:
    path = tmp_path / "a[1] b%20c:d"
    path.mkdir()
    plan(path, 0, 10)
    torn = path / "lake" / "offsets" / ".1.7b1d.tmp"
    torn.write_text("v1\n{")
    found = claimed(path)
    assert found.began is None  # it has batches, and no file of ours: where it began is not known
    found.mend()
    assert not torn.exists()
    assert found.identity("lake", "q", 0, none).end == {At("orders", 0): 10}
