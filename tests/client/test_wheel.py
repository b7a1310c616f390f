"""What a user's type checker sees of an installed wheel."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# As pip calls it; pip itself would take longer than the build.
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
PROGRAM = """
import barnabas

consumer = barnabas.Consumer("t", value_deserializer=int, group_id="g")
reveal_type(consumer)
"""


def test_a_program_that_uses_the_wheel_is_checked_with_its_types(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    leave_out = shutil.ignore_patterns("__pycache__", "*.so", "*.c")
    shutil.copytree(ROOT / "barnabas", source / "barnabas", ignore=leave_out)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    environment = {**os.environ, "BARNABAS_PURE": "1"}  # types need no compiler
    build = [sys.executable, "-c", BUILD, str(tmp_path)]
    subprocess.run(build, check=True, env=environment, cwd=source, capture_output=True)
    [wheel] = tmp_path.glob("barnabas-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        assert "barnabas/py.typed" in packed.namelist()
        packed.extractall(site)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", str(program)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Success: no issues found" in checked.stdout, checked.stdout
    assert "Consumer[bytes | None, int]" in checked.stdout.replace("builtins.", "")
