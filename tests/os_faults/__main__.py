"""`python -m tests.os_faults`: every fault at every call site, on one broker and on three.

`--write` puts the table into docs/DURABILITY.md; `--only TEXT` plays the rounds whose site has it.
Most of a round is waiting, so several rigs of each number of brokers share the rounds.
"""

import argparse
import json
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from tests.os_faults import table
from tests.os_faults.control import EINTR, FIRST_START, Action, Site, actions_for
from tests.os_faults.rig import Rig
from tests.os_faults.rounds import UNMET, Outcome, first_start, play, recorded

MEMORY = Path("/dev/shm")  # nothing here depends on a real disk: the faults are made
ROUNDS_PER_RIG = 40  # its logs grow, and so does the time that a start takes
STOPPING = threading.Event()
# A site in each phase in which it was seen, the quickest to bring about first.
Round = tuple[tuple[Site, ...], Action]


def rounds_of(sites: Iterable[Site]) -> list[Round]:
    """Each call site once, however many phases it was seen in."""
    found: dict[tuple[str, ...], list[Site]] = {}
    for site in sites:
        found.setdefault(site[1:], []).append(site)
    return [(tuple(same), action) for same in found.values() for action in actions_for(same[0])]


class _Player:
    """Plays rounds on one rig, for as long as that stays well."""

    def __init__(self, home: Path, count: int, failed: Path | None) -> None:
        self._home, self._count, self._failed = home, count, failed
        self._rig: Rig | None = None
        self._number = self._played = 0

    def play(self, sites: tuple[Site, ...], action: Action) -> Outcome:
        """In the next phase, where the broker did not make the call in the one before."""
        for site in sites:
            outcome = self._play(site, action)
            if outcome.what != UNMET:
                break
        return outcome

    def _play(self, site: Site, action: Action) -> Outcome:
        if site.phase == FIRST_START:
            home = self._next_home()
            outcome = first_start(home, self._count, site, action)
            shutil.rmtree(home, ignore_errors=True)
            return outcome
        if self._rig is None:
            self._rig = Rig(self._next_home(), self._count)
            self._rig.begin()
        outcome = play(self._rig, site, action)
        self._played += 1
        if outcome.failed and self._failed is not None:
            self._rig.end()
            shutil.copytree(self._rig.home, Path(tempfile.mkdtemp(dir=self._failed)) / "rig")
        if outcome.failed or self._played >= ROUNDS_PER_RIG:
            self.end()
        return outcome

    def _next_home(self) -> Path:
        self._number += 1
        return self._home / str(self._number)

    def end(self) -> None:
        rig, self._rig, self._played = self._rig, None, 0
        if rig is not None:
            rig.end()
            shutil.rmtree(rig.home, ignore_errors=True)


def played(
    home: Path, count: int, rounds: Iterable[Round], failed: Path | None = None
) -> Generator[Outcome, None, None]:
    """`failed`: where the data and logs of brokers are kept that a round left unwell."""
    player = _Player(home, count, failed)
    try:
        for sites, action in rounds:
            yield player.play(sites, action)
    finally:
        player.end()


class _Shared:
    """Rounds that several rigs take in turn, until none is left or the time is up."""

    def __init__(self, rounds: list[Round], seconds: float) -> None:
        self._left = iter(rounds)
        self._end = time.monotonic() + seconds
        self._turn = threading.Lock()

    def __iter__(self) -> "_Shared":
        return self

    def __next__(self) -> Round:
        with self._turn:
            if STOPPING.is_set() or time.monotonic() > self._end:
                raise StopIteration
            return next(self._left)


class Progress:
    """What has come of the rounds: a file of outcomes, lines for people, a bar on a terminal."""

    def __init__(self, keep: Path | None, verbose: bool) -> None:
        self._keep, self._verbose = keep, verbose
        self._began = time.monotonic()
        self._turn = threading.Lock()
        self._failed = self.done = self._all = 0

    def expect(self, rounds: int) -> None:
        with self._turn:
            self._all += rounds

    def add(self, outcome: Outcome, taken_s: float) -> None:
        what = f"{outcome.action.name} at {outcome.site} [{outcome.site.phase}]"
        with self._turn:
            self.done += 1
            self._failed += bool(outcome.failed)
            if self._keep is not None:
                with self._keep.open("a") as file:
                    file.write(json.dumps(outcome) + "\n")
            if outcome.failed:
                self._say(f"FAILED {what}, {outcome.brokers} broker(s): {outcome.failed}")
            elif self._verbose:
                self._say(f"{taken_s:5.1f} s, {outcome.brokers} broker(s), {what}: {outcome.what}")
            self._draw()

    def _say(self, line: str) -> None:
        clear = "\r\033[K" if sys.stderr.isatty() else ""
        print(clear, end="", file=sys.stderr, flush=True)
        print(line, flush=True)

    def _draw(self) -> None:
        if not sys.stderr.isatty():
            return
        width = 40 * self.done // self._all
        taken_s = time.monotonic() - self._began
        left_min = taken_s / self.done * (self._all - self.done) / 60
        bar = "#" * width + "." * (40 - width)
        said = f"[{bar}] {self.done}/{self._all} rounds, {self._failed} failed"
        print(f"\r{said}, {left_min:.0f} min left  ", end="", file=sys.stderr, flush=True)


def main() -> int:
    options = argparse.ArgumentParser(prog="tests.os_faults", description=__doc__)
    options.add_argument("--brokers", default="1,3")
    options.add_argument("--rigs", default="3,2", help="at once, of each number of brokers")
    options.add_argument("--only", default="")
    options.add_argument("--share", type=float, default=1.0, help="of the rounds, drawn by --seed")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument(
        "--seconds", type=float, default=float("inf"), help="per number of brokers"
    )
    options.add_argument("--verbose", action="store_true", help="a line for each round")
    options.add_argument(
        "--keep", type=Path, help="a file of outcomes; rounds that are clean in it are not repeated"
    )
    options.add_argument(
        "--failed", type=Path, help="a directory for the data and logs of failed rounds"
    )
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: STOPPING.set())  # the rounds under way come to their end
    began = time.monotonic()
    progress = Progress(given.keep, given.verbose)
    memory = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="os-faults-", dir=memory) as home:
        counts = list(map(int, given.brokers.split(",")))
        rigs = list(map(int, given.rigs.split(",")))
        with ThreadPoolExecutor(len(counts)) as side_by_side:
            results = list(
                side_by_side.map(
                    lambda count, rigs: whole(Path(home), count, rigs, given, progress),
                    counts,
                    rigs,
                )
            )
    sites = {count: found for count, (found, _, _) in zip(counts, results, strict=True)}
    wanted = sum(rounds for _, rounds, _ in results)
    outcomes = [outcome for _, _, each in results for outcome in each]
    failed = [outcome for outcome in outcomes if outcome.failed]
    unmet = sum(outcome.what == UNMET for outcome in outcomes)
    print(
        f"{sum(sites.values())} call sites, {len(outcomes)} of {wanted} rounds,"
        f" {unmet} not met, {len(failed)} failed; {time.monotonic() - began:.0f} s,"
        f" of which the processors worked {_worked_s():.0f} s"
    )
    if given.write:
        table.write(sites, wanted, outcomes, len(outcomes) - progress.done)
    return 1 if failed else 0


def _worked_s() -> float:
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def whole(
    home: Path, count: int, rigs: int, given: argparse.Namespace, progress: Progress
) -> tuple[int, int, list[Outcome]]:
    """How many sites there are, how many rounds that makes, and what came of those played."""
    home = home / str(count)
    every = rounds_of(recorded(home / "recording", count))
    found = len({sites for sites, _ in every})
    rounds = [(s, a) for s, a in every if given.only in f"{s[0]} {a.name}"]
    rounds = Random(given.seed).sample(rounds, int(len(rounds) * given.share))
    wanted = {(s[0][1:], a) for s, a in rounds}
    clean = [o for o in kept(given.keep) if o.brokers == count and not o.failed]
    before = {(o.site[1:], o.action): o for o in clean if (o.site[1:], o.action) in wanted}
    left = in_order([(s, a) for s, a in rounds if (s[0][1:], a) not in before])
    print(f"{found} call sites on {count} broker(s), {len(left)} rounds to play", flush=True)
    progress.expect(len(left))
    shared = _Shared(left, given.seconds)
    with ThreadPoolExecutor(rigs) as side_by_side:
        each = side_by_side.map(
            lambda n: run(played(home / str(n), count, shared, given.failed), progress.add),
            range(rigs),
        )
        return found, len(rounds), [*before.values(), *(o for outcomes in each for o in outcomes)]


def in_order(rounds: list[Round]) -> list[Round]:
    """Where time is short: one site of each call, file and fault before the others of the kind;
    what has never gone wrong, and what takes longest, last."""
    alike: Counter[tuple[str, str, str]] = Counter()
    ranked = []
    for sites, action in rounds:
        kind = (sites[0].call, sites[0].kind, action.name)
        last = sites[0].phase == FIRST_START or action is EINTR
        ranked.append((last, alike[kind], sites, action))
        alike[kind] += 1
    ranked.sort(key=lambda each: each[:2])
    return [(sites, action) for _, _, sites, action in ranked]


def kept(path: Path | None) -> list[Outcome]:
    if path is None or not path.exists():
        return []
    return [Outcome.of(json.loads(line)) for line in path.read_text().splitlines()]


def run(playing: Iterable[Outcome], add: Callable[[Outcome, float], None]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    last = time.monotonic()
    for outcome in playing:
        outcomes.append(outcome)
        taken_s, last = time.monotonic() - last, time.monotonic()
        add(outcome, taken_s)
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
