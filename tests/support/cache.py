"""Where other people's programs are kept, and how each comes there once.

In: a name and a way to build a directory. Out: that directory, complete, or `Missing` with a
reason a person can act on.
Always: one builder at a time across processes; a directory is either whole or not there.
"""

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
FAILURE_REMEMBERED_S = 3600  # longer than all tests take


class Missing(Exception):
    """This machine does not have the part, and it could not be fetched: the text says why."""


@contextmanager
def locked(name: str) -> Iterator[None]:
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def once(name: str, build: Callable[[Path], None]) -> Path:
    """`.cache/NAME`, built into a directory beside it and moved when whole."""
    done = CACHE / name
    failed = CACHE / f"{name}.failed"
    with locked(name):
        if done.exists():
            return done
        # Parallel test workers would each try again, and each wait for the same network.
        if failed.exists() and time.time() - failed.stat().st_mtime < FAILURE_REMEMBERED_S:
            raise Missing(failed.read_text())
        making = CACHE / f"{name}.making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        try:
            build(making)
        except Missing as missing:
            failed.write_text(str(missing))
            raise
        making.rename(done)
        failed.unlink(missing_ok=True)
    return done


def forget_failures() -> None:
    for failed in CACHE.glob("*.failed"):
        failed.unlink(missing_ok=True)


def run(
    command: Sequence[str | Path],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    what: str,
) -> str:
    """Its output; `Missing` naming `what` and the last lines when it fails."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise Missing(f"{what}: there is no {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise Missing(f"{what}: {command[0]} took over {timeout_s:.0f} s") from None
    if done.returncode:
        tail = " / ".join(done.stdout.strip().splitlines()[-3:])
        raise Missing(f"{what}: {command[0]} failed with {done.returncode}: {tail[:400]}")
    return done.stdout
