"""Many runs, on a new directory every so often, so that none grows without bound."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.kill.arena import Arena
from tests.kill.ledger import Violation

RUNS_PER_DIRECTORY = 50
MEMORY = Path("/dev/shm")


@dataclass
class Done:
    """What a number of runs came to."""

    kills: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    ready_ms: list[int] = field(default_factory=list)


def run_all(runs: int, seed: int, say: Callable[[str], None]) -> Done:
    """Violation names the seed and the directory, which is kept."""
    done = Done()
    for number, first in enumerate(range(0, runs, RUNS_PER_DIRECTORY)):
        count = min(RUNS_PER_DIRECTORY, runs - first)
        _round(number, count, seed, done)
        say(f"{first + count} runs, {done.acknowledged} records acknowledged")
    return done


def _round(number: int, runs: int, seed: int, done: Done) -> None:
    where = MEMORY if MEMORY.is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="barnabas-kill-", dir=where))
    arena = Arena(directory / "round", Random(f"{seed} {number}"))
    transcript: list[str] = []
    try:
        transcript.extend(arena.run() for _ in range(runs))
        arena.finish()
    except Exception as problem:
        raise Violation(
            f"seed {seed}, round {number}, run {len(transcript)} ({', '.join(transcript[-5:])}):"
            f" {problem}\nkept: {directory}"
        ) from problem
    finally:
        arena.abandon()
    done.kills.update(arena.kills)
    done.acknowledged += arena.acknowledged
    done.ready_ms += arena.ready_ms
    shutil.rmtree(directory)
