"""What a user's type checker sees of an installed wheel."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
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
    pip = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path)]
    environment = {**os.environ, "BARNABAS_PURE": "1"}  # types need no compiler
    subprocess.run([sys.executable, *pip, str(source)], check=True, env=environment)
    [wheel] = tmp_path.glob("barnabas-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        assert "barnabas/py.typed" in packed.namelist()
        packed.extractall(site)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}/cache", str(program)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Success: no issues found" in checked.stdout, checked.stdout
    assert "Consumer[bytes | None, int]" in checked.stdout.replace("builtins.", "")
