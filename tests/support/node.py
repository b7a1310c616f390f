"""kafkajs from npm, with the codecs it does not carry, and Node programs run against it."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.process import BROKERS
from tests.secured import node_environment
from tests.support.cache import once, run
from tests.support.install import program
from tests.waiting import PROGRAM_S

PACKAGES = ("kafkajs@2.2.4", "snappyjs@0.7.0", "lz4js@0.2.0", "zstd-codec@0.1.5")
SOURCES = Path(__file__).parent / "node"
NPM_TIMEOUT_S = 590


@dataclass(frozen=True)
class Node:
    """Runs the programs of `tests/support/node/`."""

    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": str(Path(program("node")).parent),
            "NODE_PATH": str(self.directory / "node_modules"),
            "KAFKAJS_NO_PARTITIONER_WARNING": "1",
            "BROKERS": str(BROKERS),
            **node_environment(),
        }

    def command(self, script: str, *arguments: str) -> list[str]:
        return [program("node"), str(SOURCES / script), *arguments]

    def run(
        self, script: str, *arguments: str, timeout_s: float = PROGRAM_S
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(script, *arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def kafkajs() -> Node:
    return Node(once("kafkajs", _fetch_kafkajs))


def _fetch_kafkajs(directory: Path) -> None:
    program("node")
    (directory / "package.json").write_text('{"private": true}\n')
    run(
        [program("npm"), "install", "--no-audit", "--no-fund", "--no-package-lock", *PACKAGES],
        cwd=directory,
        timeout_s=NPM_TIMEOUT_S,
        what="kafkajs from npm",
    )
