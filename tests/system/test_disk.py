import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.system.disk import SystemDisk, SystemFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SystemFile]:
    file = SystemDisk().open(str(tmp_path / "file"), create=True)
    file.write(0, b"records")
    yield file
    file.close()


class Asked:
    """Stands for a system that answers reads which must not wait with an error."""

    def __init__(self, code: int) -> None:
        self._code = code
        self.times = 0

    def __call__(self, *_: object) -> int:
        self.times += 1
        raise OSError(self._code, os.strerror(self._code))


def asked(monkeypatch: pytest.MonkeyPatch, code: int) -> Asked:
    answer = Asked(code)
    monkeypatch.setattr(os, "preadv", answer)
    return answer


def test_what_is_in_memory_is_cached(file: SystemFile) -> None:
    assert file.cached(0, 7)


def test_what_would_be_waited_for_is_not(file: SystemFile, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, errno.EAGAIN)
    assert not file.cached(0, 7)


def test_a_file_system_that_cannot_say_is_asked_once(
    file: SystemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = asked(monkeypatch, errno.EOPNOTSUPP)
    assert [file.cached(0, 7) for _ in range(3)] == [True] * 3
    assert system.times == 1


def test_after_any_other_error_it_is_asked_again(
    file: SystemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = asked(monkeypatch, errno.EIO)
    assert file.cached(0, 7)  # the read itself will say what is wrong
    assert file.cached(0, 7)
    assert system.times == 2
