"""The pipelines that run on this machine, their progress, and how to stop one.

A run has two files in a directory of its user: NAME.json has the pipeline and its progress,
NAME.lock is locked while its process lives. So a pipeline that is listed as running does run, after
kill -9 as well, and a name runs once: two runs on one checkpoint would take each other's batches.
In: a spec and its progress. Out: entries.
"""

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.explain import alerts_of
from barnabas.pipeline.run.progress import BatchProgress, Progress
from barnabas.pipeline.run.spec import Spec

RUNNING, ENDED, FAILED, KILLED = "running", "ended", "failed", "killed"
_ENTRY_SIZE_MAX = 256 * 1024
_WRITE_S_MIN = 0.2
_WRITE_S_MAX = 10.0  # also without a batch
_WAIT_S = 0.05
_TRIES = 5


@dataclass
class RosterEntry:
    """One pipeline, as its file describes it."""

    name: str
    kind: str
    state: str
    pid: int
    spec: str
    servers: str
    group: str
    master: str
    checkpoint: str | None
    started_ms: int
    updated_ms: int
    batches: int = 0
    rows: int = 0
    rows_per_s: int = 0
    batch_ms: int = 0
    lag: int | None = None
    metrics: str | None = None
    error: str | None = None
    phases_ms: dict[str, int] = field(default_factory=dict)
    alerts: dict[str, str] = field(default_factory=dict)  # as explain.py names them
    managed: bool = False  # by `pipeline serve`, in one process with others


def directory() -> Path:
    """The directory of the files of runs: XDG's directory for state that outlives a login."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(
        os.path.expanduser("~"), ".local/state"
    )
    return Path(state) / "barnabas" / "pipelines"


# --- a run's own entry ---


class Enrolled:
    """The entry of this process, kept up to date."""

    def __init__(self, path: Path, entry: RosterEntry, interval_ms: int | None) -> None:
        self._path = path
        self._entry = entry
        self._interval_ms = interval_ms
        self._written_at = 0.0
        self._sums: Progress | None = None
        self.write()

    def follow(self, progress: Progress, metrics: str | None) -> None:
        self._sums = progress
        self._entry.metrics = metrics
        progress.watch(self._batch)
        progress.on_alive = self._alive
        self.write()

    def _alive(self) -> None:
        if time.monotonic() - self._written_at > _WRITE_S_MAX:
            self.write()

    def _batch(self, batch: BatchProgress) -> None:
        entry, sums = self._entry, self._sums
        assert sums is not None
        # The query for bad rows reads the same records a second time.
        entry.rows = max(each.rows for each in sums.queries.values())
        entry.batches, entry.lag = sums.batches, sums.lag
        if batch.rows:
            entry.rows_per_s, entry.batch_ms = int(batch.rows_per_s), batch.took_ms
            entry.phases_ms = dict(batch.phases_ms)
        if time.monotonic() - self._written_at > _WRITE_S_MIN:
            self.write()

    def ended(self, error: str | None) -> None:
        self._entry.state = ENDED if error is None else FAILED
        self._entry.error = error
        self.write()

    def write(self) -> None:
        self._written_at = time.monotonic()
        self._entry.updated_ms = int(time.time() * 1000)
        if self._sums is not None:
            now_ms = int(self._written_at * 1000)
            self._entry.alerts = alerts_of(self._entry.name, self._sums, self._interval_ms, now_ms)
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(asdict(self._entry)))
        beside.replace(self._path)


@contextmanager
def enrolled(spec: Spec, path: Path, *, managed: bool = False) -> Iterator[Enrolled]:
    """Holds the entry while this process runs the pipeline. PipelineError if another process runs
    it.
    """
    where = directory()
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(where / f"{spec.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise PipelineError(
            f"{where}, where runs are listed: {problem.strerror}: set XDG_STATE_HOME"
            " to another directory"
        ) from None
    try:
        if not _taken(lock):
            other = _read(where / f"{spec.name}.json")
            pid = "" if other is None else f", process {other.pid}"
            raise PipelineError(
                f"pipeline {spec.name!r} runs already{pid}: stop it"
                f" (barnabas pipeline stop {spec.name}), or give this one another name"
            )
        now_ms = int(time.time() * 1000)
        yield Enrolled(
            where / f"{spec.name}.json",
            RosterEntry(
                name=spec.name,
                kind=spec.kind,
                state=RUNNING,
                pid=os.getpid(),
                spec=str(path.resolve()),
                servers=spec.source.servers,
                group=spec.source.group,
                master=spec.run.master,
                checkpoint=spec.run.checkpoint,
                started_ms=now_ms,
                updated_ms=now_ms,
                managed=managed,
            ),
            spec.run.interval_ms,
        )
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    """Tries several times: a process that reads the roster holds the lock for a moment, too."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_WAIT_S)
    return False


# --- all entries ---


def entries() -> list[RosterEntry]:
    """The entries of all pipelines that run or ran here, by name."""
    where = directory()
    found = [_looked_at(path) for path in sorted(where.glob("*.json"))] if where.is_dir() else []
    return [entry for entry in found if entry is not None]


def entry_of(name: str) -> RosterEntry:
    found = {entry.name: entry for entry in entries()}
    if name not in found:
        from barnabas.config.option import nearest
        from barnabas.model.errors import Code

        hint = nearest(name, found)
        raise PipelineError(f"no pipeline {name!r} runs or ran here{hint}", Code.RESOURCE_NOT_FOUND)
    return found[name]


def stop(name: str, timeout_s: float) -> RosterEntry:
    """Stop a pipeline after its current batch, and wait until it has stopped."""
    entry = entry_of(name)
    if entry.state != RUNNING:
        return entry
    if entry.managed:
        raise PipelineError(
            f"pipeline {name!r} is one of those that process {entry.pid} serves: set lake=none on"
            " its topic, or end that process (SIGTERM) to stop all of them"
        )
    try:
        os.kill(entry.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it has just ended
    except PermissionError:
        raise PipelineError(
            f"process {entry.pid} of pipeline {name!r} belongs to another user"
        ) from None
    deadline = time.monotonic() + timeout_s
    while entry_of(name).state == RUNNING:
        if time.monotonic() > deadline:
            from barnabas.model.errors import Code

            raise PipelineError(
                f"pipeline {name!r}, process {entry.pid}, is still finishing its batch after"
                f" {timeout_s:.0f} s; stop it again to cut the batch off",
                Code.REQUEST_TIMED_OUT,
            )
        time.sleep(_WAIT_S)
    return entry_of(name)


def _looked_at(path: Path) -> RosterEntry | None:
    entry = _read(path)
    if entry is None:
        return None
    if _is_locked(path.with_name(f"{path.name.removesuffix('.json')}.lock")):
        entry.state = RUNNING
    elif entry.state == RUNNING:
        # It may have ended between the two checks.
        entry = _read(path) or entry
        entry.state = KILLED if entry.state == RUNNING else entry.state
    return entry


def _read(path: Path) -> RosterEntry | None:
    """The entry of a file; None if the file is not an entry: any program may put a file there."""
    try:
        with open(path, "rb") as file:
            found: Any = json.loads(file.read(_ENTRY_SIZE_MAX))
        known = {field.name for field in fields(RosterEntry)}
        entry = RosterEntry(**{name: value for name, value in found.items() if name in known})
        sound = int(entry.pid) > 1 and f"{entry.name}.json" == path.name
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return entry if sound else None


def _is_locked(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
