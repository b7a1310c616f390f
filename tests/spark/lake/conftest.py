"""An S3 server for the tests of lakes."""

from collections.abc import Iterator

import pytest

from tests.conftest import _or_skip
from tests.support.s3 import BUCKET, running_s3, versitygw


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    _or_skip(versitygw)
    with running_s3(tmp_path_factory.mktemp("s3")) as environment:
        yield environment


@pytest.fixture
def s3(
    s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> str:
    """A place of this test's own on S3; the environment has the credentials."""
    for name, value in s3_server.items():
        monkeypatch.setenv(name, value)
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return f"s3://{BUCKET}/{name}"


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A place for tables: a directory, then a prefix on S3."""
    if request.param == "s3":
        found: str = request.getfixturevalue("s3")
        return found
    return str(tmp_path_factory.mktemp("lake"))
