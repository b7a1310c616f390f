"""Stores that keep to conditions, a store that does not, and checkpoints on S3."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.conditional_put import S3Objects, check_conditional_writes
from barnabas.pipeline.lake.remote_checkpoint import RemoteCheckpoint
from barnabas.pipeline.lake.store import Store
from barnabas.pipeline.run.spec import SpecError
from tests.support.s3 import CREDENTIALS

pytest.importorskip("boto3")


class Careless(BaseHTTPRequestHandler):
    """A store that ignores conditions."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_DELETE(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        yield "s3://lake/table"
        server.shutdown()
        thread.join()


def test_a_store_that_ignores_conditions_is_refused(careless: str) -> None:
    with pytest.raises(SpecError, match="the store let 16 of 16 writers create one object"):
        check_conditional_writes(Store(careless))


def test_a_store_with_conditional_writes_is_accepted(s3: str) -> None:
    check_conditional_writes(Store(s3))
    assert Store(s3).names() == []
    objects = S3Objects(Store(s3))
    assert objects.read("a") is None
    tag = objects.write("a", b"1", tag=None)
    assert tag is not None
    assert objects.write("a", b"2", tag=None) is None
    newer = objects.write("a", b"2", tag=tag)
    assert newer is not None
    assert objects.write("a", b"3", tag=tag) is None
    assert objects.read("a") == (b"2", newer)


def test_a_write_whose_answer_was_lost_is_no_sign_of_a_bad_store(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client repeats it, and the repetition is refused."""
    plain = S3Objects.write

    def lost(self: S3Objects, name: str, content: bytes, *, tag: str | None) -> None:
        plain(self, name, content, tag=tag)

    monkeypatch.setattr(S3Objects, "write", lost)
    check_conditional_writes(Store(s3))


def batch(directory: Path, number: int) -> None:
    """What Spark writes when it plans a batch."""
    for name in ("barnabas.json", "lake/metadata"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)
    (directory / "lake" / "offsets").mkdir(exist_ok=True)
    (directory / "lake" / "offsets" / str(number)).write_text(f"v1\n{number}")


def test_a_checkpoint_is_continued_on_another_machine(s3: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    first = RemoteCheckpoint(s3, here)
    first.fetch()
    for number in range(5):
        batch(here, number)
        first.publish(number)
    second = RemoteCheckpoint(s3, there)
    second.fetch()
    offsets = sorted(path.name for path in (there / "lake" / "offsets").iterdir())
    assert offsets == ["3", "4"]  # Spark repeats 4, from where 3 ended
    assert (there / "lake" / "metadata").read_text() == "lake/metadata"
    # The first driver was only slow: it must not commit any more.
    batch(here, 5)
    with pytest.raises(PipelineError, match="another driver has taken it over"):
        first.publish(5)
    batch(there, 5)
    second.publish(5)


def test_a_missing_bucket_is_one_line(s3: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"s3://none/x: .*bucket"):
        RemoteCheckpoint("s3://none/x", tmp_path / "x").fetch()
