"""Runs one world, with or without a bug planted in it, and says what came of it."""

import gc
import os
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from traceback import print_exc

from tests.simulator.world import Failure, World

KEPT = 10  # worlds, until what is left of them is collected
_run = 0


@dataclass
class Result:
    seed: int
    trace: str
    counts: Counter[str]
    cpu_s: float
    failure: str = ""
    problem: str = ""
    transcript: str = ""


def run_seed(
    seed: int,
    brokers: int | None = None,
    *,
    whole_transcript: bool = False,
    transactions: bool = False,
    shares: bool | None = None,
    outages: bool = False,
) -> Result:
    global _run  # noqa: PLW0603
    _run += 1
    if _run % KEPT == 0 and gc.isenabled():
        gc.collect()
    began = process_time()
    world = World(seed, brokers, transactions=transactions, shares=shares, outages=outages)
    failure = problem = ""
    try:
        world.run()
    except Failure as found:
        failure, problem = str(found), found.problem
    return Result(
        seed,
        world.transcript.trace(),
        world.transcript.counts,
        process_time() - began,
        failure,
        problem,
        world.transcript.last(1 << 30) if whole_transcript else "",
    )


def in_child(work: Callable[[], list[Result]]) -> list[Result]:
    """In a process made for it, whose end frees what the worlds leave: to collect that costs a
    tenth of their time. The child has the imports and codecs of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            gc.disable()
            with open(writer, "wb") as pipe:
                pickle.dump(work(), pipe)
            status = 0
        except BaseException:
            print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as pipe:
        results = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise AssertionError(f"a process with worlds ended with status {status}")
    found: list[Result] = pickle.loads(results)  # noqa: S301 (from our own child)
    return found


def find_bug(name: str, seeds_max: int) -> Result | None:
    """The first seed whose world breaks with this bug in it, among those that suit it."""
    from tests.simulator.bugs import BUGS

    bug = BUGS[name]
    with bug.planted():
        for seed in range(bug.first_seed, bug.first_seed + seeds_max):
            result = run_seed(
                seed,
                bug.brokers,
                transactions=bug.transactions,
                shares=bug.shares,
                outages=bug.outages,
            )
            if result.failure:
                _check_frames(name, result.failure)
                return result
    return None


def _check_frames(name: str, failure: str) -> None:
    """Code that no longer fits what it is planted in fails by itself, and shows nothing."""
    frames = [line for line in failure.splitlines() if line.lstrip().startswith('File "')]
    if frames and "/simulator/bugs/" in frames[-1]:
        raise AssertionError(f"{name} does not do what it says:\n{failure}")
