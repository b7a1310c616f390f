"""Paths of a spec are names, letter by letter; directories are renamed once."""

import os
from pathlib import Path

import pytest

from barnabas.pipeline.spark.files import LocalDirectory, PathParts, local_path, path_parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("lake", (None, None, "lake")),
        ("/a [1]/b%20c", (None, None, "/a [1]/b%20c")),
        ("a:b", (None, None, "a:b")),
        ("C:/x", (None, None, "C:/x")),
        ("file:/x", ("file", None, "/x")),
        ("file:///x y", ("file", None, "/x y")),
        ("file:x", (None, None, "file:x")),
        ("hdfs://name:8020/x:y", ("hdfs", "name:8020", "/x:y")),
        ("s3a://bucket/x", ("s3a", "bucket", "/x")),
    ],
)
def test_only_a_scheme_with_a_slash_is_more_than_a_name(
    text: str, parts: tuple[str | None, str | None, str]
) -> None:
    assert path_parts(text) == PathParts(*parts)


def test_a_path_of_this_machine_is_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_path("a b%20[c]:d") == f"{tmp_path}/a b%20[c]:d"
    assert local_path("file:/x") == local_path("file:///x") == "/x"
    assert local_path("hdfs://h/x") is None


def test_of_two_renames_to_one_name_one_succeeds_and_neither_moves_into_the_other(
    tmp_path: Path,
) -> None:
    directory = LocalDirectory(str(tmp_path))
    for name in ("one", "two"):
        directory.write(f"{name}/file", name)
    assert directory.rename_new("one", "there")
    assert not directory.rename_new("two", "there")
    assert directory.names("there") == ["file"]
    assert (directory.read("there/file"), directory.read("two/file")) == ("one", "two")
    with pytest.raises(FileNotFoundError):
        directory.rename_new("none", "other")


def test_a_file_is_replaced_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the rename, the old text is still there."""
    directory = LocalDirectory(str(tmp_path))
    directory.write("file", "old")

    def killed(*_: object) -> None:
        assert directory.read("file") == "old"
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        directory.write("file", "new")
    assert directory.read("file") == "old"
    monkeypatch.undo()
    directory.write("file", "new")
    assert (directory.read("file"), directory.read("none")) == ("new", None)
