"""Many rounds, on this process's own Spark or on a cluster of two workers."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from barnabas.pipeline.run.standalone import standalone
from tests.spark.kills.arena import KAFKA_SINK, SINK, TABLES, Arena
from tests.spark.kills.truth import Untrue

PLACES = ("local", "cluster")
SUBJECTS = (TABLES, SINK, KAFKA_SINK)
WORKERS = 2


@dataclass
class Done:
    """What a number of rounds came to."""

    kills: Counter[str] = field(default_factory=Counter)
    records: int = 0


def run_rounds(
    place: str, rounds: int, seed: int, say: Callable[[str], None], what: str = TABLES
) -> Done:
    """Untrue names the seed and the directory, which is kept."""
    directory = Path(tempfile.mkdtemp(prefix="barnabas-kills-"))
    random = Random(f"{seed} {place}")
    story: list[str] = []
    done = Done()
    try:
        with ExitStack() as up:
            master = "local[2]"
            workers: list[int] = []
            if place == "cluster":
                cluster = up.enter_context(
                    standalone(host="127.0.0.1", port=0, workers=WORKERS, cores=1, memory="1g")
                )
                master = cluster.master
                workers = [each.process.pid for each in cluster.daemons[1:]]
            arena = up.enter_context(Arena(directory, master, random, workers, what))
            for number in range(rounds):
                story.append(arena.round())
                say(f"{what}, {place}, round {number + 1}: {story[-1]}")
            done.records = arena.finish()
            done.kills = arena.kills
    except Exception as problem:
        raise Untrue(
            f"seed {seed}, {what}, {place}, round {len(story)} ({', '.join(story[-5:])}):"
            f" {problem}\n"
            f"kept: {directory}"
        ) from problem
    shutil.rmtree(directory)
    return done
