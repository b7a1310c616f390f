"""What `pip install` makes of a built wheel and of a source distribution, in a clean environment.

Dependencies come from the environment of the tests, but only those that the package names: what
an extra brings is not there.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.waiting import WAIT_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "pyspark_barnabas.py")
# As pip calls it; pip itself would make an environment for the build first.
BUILD = "import sys; from setuptools.build_meta import *; {}(sys.argv[1])"
WHEEL_MB_MAX, SOURCE_MB_MAX = 4.0, 2.0
CPU_S_MAX = 10.0
FIRST_RECORD = """
import time
import barnabas
kafka = barnabas.start()
kafka.topic("orders").send({"id": 1})
(record,) = kafka.topic("orders").records()
print(time.process_time())
assert record.value == b'{"id":1}'
assert "&quot;id&quot;:1" in kafka.topic("orders")._repr_html_()
try:
    kafka.topic("orders").to_arrow()
except barnabas.InvalidRequest as refused:
    assert "pip install 'barnabas[arrow]'" in str(refused)
else:
    raise AssertionError("pyarrow is there: this environment is not clean")
import barnabas.wire.columns, pathlib
print(pathlib.Path(barnabas.wire.columns.__file__).suffix)
print(barnabas.__file__)
kafka.stop()
"""


def build(tmp: Path, what: str, *, pure: bool) -> Path:
    source = tmp / "source"
    leave_out = shutil.ignore_patterns("__pycache__", "*.so", "*.c")
    shutil.copytree(ROOT / "barnabas", source / "barnabas", ignore=leave_out)
    for name in SOURCES:
        shutil.copy(ROOT / name, source)
    environment = {**os.environ} | ({"BARNABAS_PURE": "1"} if pure else {})
    command = [sys.executable, "-c", BUILD.format(what), str(tmp)]
    done = subprocess.run(
        command, env=environment, cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (found,) = [*tmp.glob("barnabas-*.whl"), *tmp.glob("barnabas-*.tar.gz")]
    return found


class Installed:
    """An environment that has the package, and else only what it needs."""

    def __init__(self, tmp: Path, package: Path, *, pure: bool) -> None:
        venv.create(tmp / "clean", with_pip=False)
        self.bin = tmp / "clean" / "bin"
        site = next((tmp / "clean" / "lib").glob("python*")) / "site-packages"
        command = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install"]
        options = ["-q", "--no-deps", "--no-index", "--no-build-isolation", str(package)]
        # An sdist is built with what is here: setuptools and Cython.
        environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
        if pure:
            environment["BARNABAS_PURE"] = "1"
        done = subprocess.run(
            [*command, *options], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        for name in _dependencies():
            found = metadata.distribution(name)
            for part in {Path(file).parts[0] for file in found.files or ()} - {"..", "bin"}:
                (site / part).symlink_to(str(found.locate_file(part)))

    def run(self, *command: str) -> str:
        environment = {name: each for name, each in os.environ.items() if name[:6] != "PYTHON"}
        done = subprocess.run(
            [self.bin / command[0], *command[1:]],
            env=environment, cwd="/", capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.mark.parametrize(
    ("what", "pure"), [("build_wheel", False), ("build_wheel", True), ("build_sdist", True)]
)
def test_an_installed_package_starts_a_broker_and_reads_a_record(
    tmp_path: Path, what: str, pure: bool
) -> None:
    if not pure and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    package = build(tmp_path, what, pure=pure)
    megabytes = package.stat().st_size / 1e6
    assert megabytes < (WHEEL_MB_MAX if what == "build_wheel" else SOURCE_MB_MAX)
    if what == "build_wheel":
        platform = r"-none-any\.whl" if pure else r"-manylinux_2_\d+_\w+\.whl"
        assert re.search(platform, package.name), package.name
    names = _names(package)
    assert any(name.endswith("barnabas/py.typed") for name in names)
    assert any(name.endswith("console/templates/brokers.html") for name in names)
    assert any(name.endswith("wire/columns.pxd") for name in names)
    assert not any("/tests/" in name or name.startswith("tests/") for name in names)
    assert any(name.endswith(".so") for name in names) is not pure
    installed = Installed(tmp_path, package, pure=pure)
    seconds, suffix, where = installed.run("python", "-c", FIRST_RECORD).split()
    assert where.startswith(str(tmp_path)), "the installed one, not that of the tests"
    assert suffix == (".py" if pure else ".so")
    assert float(seconds) < CPU_S_MAX, "less than one on a quiet machine"
    assert installed.run("barnabas", "--version").startswith("barnabas ")


def _dependencies() -> list[str]:
    """Without the extras. None of them has dependencies of its own on Linux."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [re.split(r"[<>=]", each)[0] for each in project["dependencies"]]


def _names(package: Path) -> list[str]:
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as packed:
            return packed.namelist()
    with tarfile.open(package) as packed_tar:
        return packed_tar.getnames()


def test_extras_name_what_imports_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    said = {"arrow": "pyarrow", "sql": "duckdb", "spark": "pyspark", "zookeeper": "kazoo",
            "console": "starlette", "oauth": "PyJWT", "delta": "deltalake"}  # fmt: skip
    for extra, package in said.items():
        assert any(each.lower().startswith(package.lower()) for each in extras[extra]), extra
    text = "".join(path.read_text() for path in (ROOT / "barnabas").rglob("*.py"))
    for extra in set(re.findall(r"barnabas\[(\w+)\]", text)):
        assert extra in extras, f"an error names the extra {extra}, which does not exist"


def test_importing_the_package_takes_no_time() -> None:
    """How long it takes is for `make bench` to say: here, that it imports little."""
    program = (
        "import sys; before = set(sys.modules); import barnabas;"
        "print(len(set(sys.modules) - before),"
        " len([name for name in sys.modules if name.startswith('barnabas')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules, of_ours = map(int, done.stdout.split())
    assert modules < 60
    assert of_ours < 10
