"""Many rounds, on this process's own Spark or on a cluster of two workers."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from barnabas.pipeline.run.standalone import standalone
from tests.spark.kills.arena import Arena
from tests.spark.kills.subjects import SUBJECTS, TABLES, use_environment
from tests.spark.kills.truth import Untrue
from tests.support.s3 import S3Server

PLACES = ("local", "cluster")
WORKERS, CORES = 2, 2  # for two drivers at once, each with an executor on both workers


@dataclass
class Done:
    """What a number of rounds came to."""

    kills: Counter[str] = field(default_factory=Counter)
    records: int = 0


def run_rounds(
    place: str,
    rounds: int,
    seed: int,
    say: Callable[[str], None],
    what: str = TABLES,
    only: Sequence[str] = (),
) -> Done:
    """Untrue names the seed and the directory, which is kept. `only`: these kinds of kills."""
    directory = Path(tempfile.mkdtemp(prefix="barnabas-kills-"))
    random = Random(f"{seed} {place}")
    transcript: list[str] = []
    done = Done()
    try:
        with ExitStack() as up:
            subject = SUBJECTS[what]
            store = None
            if subject.on_s3:
                store = S3Server(directory / "s3")
                up.callback(store.stop)
                store.start()
                use_environment(store.environment)  # of the cluster's workers, too
            master = "local[2]"
            workers: list[int] = []
            if place == "cluster":
                cluster = up.enter_context(
                    standalone(host="127.0.0.1", port=0, workers=WORKERS, cores=CORES, memory="1g")
                )
                master = cluster.master
                workers = [each.process.pid for each in cluster.daemons[1:]]
            arena = up.enter_context(
                Arena(directory, master, random, workers, subject, store, only)
            )
            for number in range(rounds):
                transcript.append(arena.round())
                say(f"{what}, {place}, round {number + 1}: {transcript[-1]}")
            done.records = arena.finish()
            done.kills = arena.kills
    except Exception as problem:
        raise Untrue(
            f"seed {seed}, {what}, {place}, round {len(transcript)} ({', '.join(transcript[-5:])}):"
            f" {problem}\n"
            f"kept: {directory}"
        ) from problem
    shutil.rmtree(directory)
    return done
