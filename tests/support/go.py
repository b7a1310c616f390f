"""franz-go, as the one Go program of `tests/support/franz/`, built on first use."""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.cache import once, run
from tests.support.install import program
from tests.waiting import PROGRAM_S

SOURCES = Path(__file__).parent / "franz"
BUILD_TIMEOUT_S = 590

MODULE = """module franz

go 1.24

require (
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kadm v1.19.0
)
"""


@dataclass(frozen=True)
class Franz:
    """The built program."""

    path: Path

    def run(
        self, *arguments: str, timeout_s: float = PROGRAM_S
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.path), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def franz_go() -> Franz:
    sources = sorted(SOURCES.glob("*.go"))
    digest = hashlib.sha256(
        MODULE.encode() + b"".join(source.read_bytes() for source in sources)
    ).hexdigest()[:12]

    def build(directory: Path) -> None:
        go = program("go")
        (directory / "go.mod").write_text(MODULE)
        for source in sources:
            shutil.copy(source, directory)
        run(
            [go, "build", "-mod=mod", "-o", directory / "franz", "."],
            cwd=directory,
            timeout_s=BUILD_TIMEOUT_S,
            # No sum file is kept in the project; the sums are checked as they are fetched.
            env={"CGO_ENABLED": "0"},
            what="franz-go",
        )

    return Franz(once(f"franz-{digest}", build) / "franz")
