"""The directory of one broker becomes that of several, also if it is cut off on the way."""

import os
from pathlib import Path

import click
import pytest

from barnabas.cli.brokers.lone_to_cluster import STAGE, grow, is_of_one, refuse_half_grown
from barnabas.log.directory.checkpoints import META_PROPERTIES, MetaProperties, encode_meta

FILES = ("keeper.db", "keeper.db-wal", ".lock", "orders-0", "broker-1", "x-checkpoint")


@pytest.fixture
def lone(tmp_path: Path) -> Path:
    (tmp_path / META_PROPERTIES).write_bytes(encode_meta(MetaProperties("cluster", 2, "dir")))
    for name in FILES:
        (tmp_path / name).mkdir() if name[-2] == "-" else (tmp_path / name).write_text(name)
    return tmp_path


def _is_grown(directory: Path) -> None:
    assert sorted(os.listdir(directory)) == [".lock", "broker-2", "keeper.db", "keeper.db-wal"]
    inside = {META_PROPERTIES, "orders-0", "broker-1", "x-checkpoint"}
    assert set(os.listdir(directory / "broker-2")) == inside
    assert not is_of_one(str(directory))


def test_all_but_the_keeper_moves_to_the_directory_of_its_number(lone: Path) -> None:
    assert is_of_one(str(lone))
    grow(str(lone), 1, 3)
    _is_grown(lone)


@pytest.mark.parametrize("moved", range(5))
def test_what_was_cut_off_goes_on(lone: Path, moved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename
    done: list[str] = []

    def some(source: str, target: str) -> None:
        if len(done) == moved:
            raise KeyboardInterrupt
        done.append(source)
        rename(source, target)

    monkeypatch.setattr(os, "rename", some)
    with pytest.raises(KeyboardInterrupt):
        grow(str(lone), 1, 3)
    monkeypatch.undo()
    assert is_of_one(str(lone))
    with pytest.raises(click.UsageError, match="cut off"):
        refuse_half_grown(str(lone))
    grow(str(lone), 1, 3)
    _is_grown(lone)
    refuse_half_grown(str(lone))


def test_a_number_that_is_not_wanted_is_refused_and_nothing_moved(lone: Path) -> None:
    before = sorted(os.listdir(lone))
    with pytest.raises(click.UsageError, match="use --id 2"):
        grow(str(lone), 5, 3)
    assert sorted(os.listdir(lone)) == before
    assert STAGE not in before
