"""A Spark that cannot start says why in one line."""

from pathlib import Path

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.session import check_java


def fake_java(directory: Path, says: str) -> None:
    path = directory / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)


def test_no_java_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match=r"Spark needs Java 17 or newer, .* none in the PATH"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match="none in JAVA_HOME"):
        check_java()


@pytest.mark.parametrize(
    ("says", "version"),
    [('java version "1.8.0_392"', "8"), ('openjdk version "11.0.2" 2019-01-15', "11"),
     ("a coffee machine", "of an unknown version")],
)  # fmt: skip
def test_an_old_java_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, version: str
) -> None:
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=f"is {version}: set JAVA_HOME") as refused:
        check_java()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', 'java version "21"'])
def test_a_java_that_is_new_enough_will_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str
) -> None:
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()
