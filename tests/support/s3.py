"""versitygw, an S3 server on a directory, built with Go on first use.

Its conditional writes are atomic, as those of S3 are.
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_ports_from
from tests.support.cache import once, run
from tests.support.install import program
from tests.waiting import WAIT_S

VERSION = "v1.8.0"
BUILD_TIMEOUT_S = 590
ACCESS_KEY, SECRET_KEY = "test", "testtest"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_EC2_METADATA_DISABLED": "true",
}
BUCKET = "lake"


def versitygw() -> Path:
    """The built program."""

    def build(directory: Path) -> None:
        go = program("go")
        run(
            [go, "install", f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"],
            timeout_s=BUILD_TIMEOUT_S,
            env={"CGO_ENABLED": "0", "GOBIN": str(directory), "GOFLAGS": "-mod=mod"},
            what="versitygw",
        )

    return once(f"versitygw-{VERSION}", build) / "versitygw"


class S3Server:
    """A server with one bucket. `environment`: for its clients."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / "data" / BUCKET).mkdir(parents=True)
        (directory / "meta").mkdir()
        self._port = free_ports_from(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.environment = {
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def start(self) -> None:
        command: list[str | Path] = [
            versitygw(), "--port", f"127.0.0.1:{self._port}", "--access", ACCESS_KEY,
            "--secret", SECRET_KEY, "posix", "--sidecar", self._directory / "meta",
            self._directory / "data",
        ]  # fmt: skip
        with open(self._directory / "s3.log", "a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        _wait(self._port, self._process)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(WAIT_S)


@contextmanager
def running_s3(directory: Path) -> Iterator[dict[str, str]]:
    """A server with one bucket. Yields the environment for its clients."""
    server = S3Server(directory)
    try:
        server.start()
        yield server.environment
    finally:
        server.stop()


def _wait(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        with socket.socket() as trial:
            trial.settimeout(1)
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"versitygw did not start within {WAIT_S} s")
