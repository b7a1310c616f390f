"""Spark's Python workers start and end their tasks without work that is not the task's."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.pipeline.spark.worker_start import quick_options, unzipped


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Laid out as pyspark is installed."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    tmp_path = tmp_path / "home"
    for name in ("bin", "jars", "python/lib"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "python" / "lib" / "pyspark.zip").touch()
    return tmp_path


def test_spark_starts_where_its_zip_of_pyspark_is_not_seen(home: Path) -> None:
    with unzipped(str(home), sys.executable):
        shown = Path(os.environ["SPARK_HOME"])
        assert sorted(each.name for each in shown.iterdir()) == ["bin", "jars"]
        assert (shown / "jars").resolve() == home / "jars"
    assert "SPARK_HOME" not in os.environ


def test_the_next_session_is_shown_the_same_links(home: Path) -> None:
    shown = []
    for _ in range(2):
        with unzipped(str(home), sys.executable):
            shown.append(os.environ["SPARK_HOME"])
    assert shown[0] == shown[1]


def test_links_that_others_may_change_are_not_used(home: Path) -> None:
    with unzipped(str(home), sys.executable):
        shown = Path(os.environ["SPARK_HOME"])
    shown.chmod(0o777)
    with unzipped(str(home), sys.executable):
        assert "SPARK_HOME" not in os.environ


def test_where_no_links_can_be_kept_spark_starts_as_it_always_does(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "python" / "lib" / "pyspark.zip"))
    with unzipped(str(home), sys.executable):
        assert "SPARK_HOME" not in os.environ


def test_the_variable_is_taken_back_though_spark_does_not_start(home: Path) -> None:
    with pytest.raises(RuntimeError), unzipped(str(home), sys.executable):
        raise RuntimeError
    assert "SPARK_HOME" not in os.environ


def test_a_home_that_the_user_chose_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with unzipped(str(home), sys.executable):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_another_python_keeps_the_zip_which_may_be_its_only_pyspark(home: Path) -> None:
    with unzipped(str(home), "/usr/bin/python3"):
        assert "SPARK_HOME" not in os.environ


def test_a_home_without_a_zip_is_shown_as_it_is(home: Path) -> None:
    (home / "python" / "lib" / "pyspark.zip").unlink()
    with unzipped(str(home), sys.executable):
        assert "SPARK_HOME" not in os.environ


def test_tasks_are_reached_without_tcp() -> None:
    assert quick_options() == {"spark.python.unix.domain.socket.enabled": "true"}


def test_only_a_worker_of_spark_settles_and_only_at_its_second_task(tmp_path: Path) -> None:
    """Elsewhere what is in memory is the user's."""
    before = gc.get_freeze_count()  # a broker in this process has settled, perhaps
    asked = "from barnabas.pipeline.spark.worker_start import settle; import gc\n"
    asked += "for _ in range(3): settle(); print(gc.get_freeze_count() > 0)\n"
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "pyspark" / "daemon.py").write_text(asked)
    (tmp_path / "other.py").write_text(asked)
    root = str(Path(__file__).parents[3])
    for module, frozen in (("pyspark.daemon", "False True True"), ("other", "False False False")):
        said = subprocess.run(
            [sys.executable, "-m", module],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout.split() == frozen.split()
    assert gc.get_freeze_count() == before
