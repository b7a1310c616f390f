"""One fault at one call site of a running broker, and what became of it.

In: a site and an action. Out: an Outcome, or Violation: an acknowledged record is lost, the broker
hangs, no error is named, or the broker does not recover when the fault ends.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.os_faults.control import (
    CLEAN_START,
    CLEAN_STOP,
    FIRST_START,
    FROZEN,
    KILLED_START,
    PHASES,
    RUNNING,
    Action,
    Site,
    unimportant,
)
from tests.os_faults.reading import Violation
from tests.os_faults.rig import Rig
from tests.waiting import WAIT_S, until

# SQLite's words, and what a failed close of a directory leads to.
OTHER_NAMES = (
    "keeper unreachable",
    "unable to open",
    "disk I/O",
    "is full",
    "readonly",
    "database disk image is malformed",  # a page that could not be read
    "Bad file descriptor",
)
HIT_S_MAX = 60.0  # checkpoints are written every five seconds
ASKED_EVERY_S = 0.3  # what comes with a request comes with the first ones; the rest is waited for
STARTED_S_MAX = 5.0  # what a broker does only after a start, it does soon
HELD_S = 0.5  # how long the fault lasts once it has been met
RECORDED_S = 8.0  # with a checkpoint, and a compaction
RECORDED_TIMES = 12
GOES_ON = "the broker continues, and works normally when the fault has ended"
STOPS = "the broker stops, and works normally after a restart"
OFFLINE = "the log directory is offline, and works normally after a restart"
STOPPED = "the fault was during a stop: the stop ends, and the next start works normally"
UNMET = "not met"


class Outcome(NamedTuple):
    """What a fault did."""

    site: Site
    action: Action
    brokers: int
    what: str
    failed: str = ""  # which promise was broken

    @classmethod
    def of(cls, row: list[Any]) -> "Outcome":
        """As it was written to a file."""
        site, action, *rest = row
        return cls(Site(*site), Action(*action), *rest)


def recorded(home: Path, count: int) -> list[Site]:
    """The call sites that a broker's whole life goes through."""
    rig = Rig(home, count)
    control, victim = rig.control, rig.victim
    try:
        control.phase = PHASES.index(FIRST_START)
        control.record()
        rig.begin()
        control.phase = PHASES.index(RUNNING)
        began, times = time.monotonic(), 0
        while not _has_lived(rig, time.monotonic() - began, times):
            rig.exercise()
            times += 1
            time.sleep(ASKED_EVERY_S)
        control.phase = PHASES.index(CLEAN_STOP)
        victim.stop()
        control.phase = PHASES.index(CLEAN_START)
        victim.start()
        rig.wait_well()
        rig.exercise()
        control.phase = PHASES.index(KILLED_START)
        victim.kill()
        victim.start()
        rig.wait_well()
        rig.exercise()
        return control.sites()
    finally:
        rig.end()


def _has_lived(rig: Rig, seconds: float, times: int) -> bool:
    """Long enough to have done everything once. The cleaner has only CPU that nobody else wants."""
    if seconds < RECORDED_S or times < RECORDED_TIMES:
        return False
    return "log compacted" in rig.victim.log or seconds > WAIT_S


def play(rig: Rig, site: Site, action: Action) -> Outcome:
    """One round on a rig that is well, and is well afterwards unless the outcome says otherwise."""
    written = rig.log_position()
    try:
        compacts = any(word in f"{site}" for word in ("compaction", "swap", "cleaner"))
        if compacts:
            rig.make_compaction_due()
        {RUNNING: _while_running, CLEAN_STOP: _at_stop}.get(site.phase, _at_start)(
            rig, site, action
        )
        met = rig.control.hits > 0
        what = _recover(rig, site)
        rig.compaction_paused = what == GOES_ON and (
            rig.compaction_paused or (compacts and met and not action.silent)
        )
        rig.check()
        if met and not action.silent:
            _check_named(rig, site, action, written)
    except (AssertionError, OSError, RuntimeError) as problem:
        rig.control.disarm()
        return Outcome(site, action, rig.count, "", f"{problem}"[:2000] or repr(problem))
    return Outcome(site, action, rig.count, what if met else UNMET)


def _while_running(rig: Rig, site: Site, action: Action) -> None:
    assert rig.load is not None
    control = rig.control
    control.arm(site, action)
    end = time.monotonic() + HIT_S_MAX
    working = threading.Thread(target=_exercise_until, args=(rig, end), daemon=True)
    working.start()
    while not control.hits and working.is_alive():
        time.sleep(0.02)
    if control.hits and action.lasts:
        time.sleep(HELD_S)
        if action is FROZEN and rig.count > 1:
            rig.wait_served()
    control.disarm()
    working.join()


def _exercise_until(rig: Rig, end: float) -> None:
    control, victim = rig.control, rig.victim
    while time.monotonic() < end and not control.hits and victim.is_running():
        rig.exercise()
        with suppress(TimeoutError, AssertionError):
            until(lambda: control.hits or not victim.is_running(), "", ASKED_EVERY_S, 0.02)


def _at_stop(rig: Rig, site: Site, action: Action) -> None:
    rig.exercise()  # files that wait for their deletion
    with _armed(rig, site, action):
        code = rig.victim.stop()
    if code == -signal.SIGABRT:
        raise Violation(f"the broker did not stop: {rig.victim.log[-4000:]}")


def _at_start(rig: Rig, site: Site, action: Action) -> None:
    victim = rig.victim
    rig.exercise()
    if site.phase == CLEAN_START:
        victim.stop()
    else:
        victim.kill()
    with _armed(rig, site, action), suppress(RuntimeError):  # ended before it was ready, as it may
        victim.start()
        _exercise_until(rig, time.monotonic() + STARTED_S_MAX)


@contextmanager
def _armed(rig: Rig, site: Site, action: Action) -> Iterator[None]:
    """Until the end, or for a moment from when the fault is first met."""
    control, over = rig.control, threading.Event()

    def release() -> None:
        while not control.hits and not over.wait(0.02):
            pass
        if action.lasts:
            over.wait(HELD_S)
        control.disarm()

    control.arm(site, action)
    releasing = threading.Thread(target=release)
    releasing.start()
    try:
        yield
    finally:
        over.set()
        releasing.join()


def _recover(rig: Rig, site: Site) -> str:
    """Without the fault; whether that took a restart."""
    victim = rig.victim
    what = GOES_ON
    if victim.is_running():
        with suppress(TimeoutError):
            rig.wait_well_or_ended()
    if not victim.is_running():
        rig.forget()
        victim.start()
        what = STOPPED if site.phase == CLEAN_STOP else STOPS
    elif not rig.well():
        victim.restart()
        what = OFFLINE
    rig.wait_well()
    return what


def _check_named(rig: Rig, site: Site, action: Action, written: int) -> None:
    """The cleaner has only CPU that nobody else wants: what it met it may say later."""
    if unimportant(site):
        return
    names = (os.strerror(action.number), action.name, *OTHER_NAMES)

    def named() -> bool:
        said = rig.victim.log[written:]
        return any(name in said for name in names)

    def unnamed() -> str:
        lines = rig.victim.log[written:].splitlines()
        worst = [line for line in lines if '"info"' not in line]
        return f"no error is named in the log: {worst[-5:]}"

    until(named, unnamed, WAIT_S, 0.1)


def first_start(home: Path, count: int, site: Site, action: Action) -> Outcome:
    """A broker that has no data yet: it starts, or ends with the error; then it starts."""
    rig = Rig(home, count)
    try:
        with _armed(rig, site, action), suppress(RuntimeError):
            rig.victim.start()
        met = rig.control.hits > 0
        what = GOES_ON
        if not rig.victim.is_running():
            rig.forget()
            what = STOPS
        rig.begin()
        rig.check()
        if met and not action.silent:
            _check_named(rig, site, action, 0)
    except (AssertionError, OSError, RuntimeError) as problem:
        return Outcome(site, action, count, "", f"{problem}"[:2000] or repr(problem))
    finally:
        rig.end()
    return Outcome(site, action, count, what if met else UNMET)
