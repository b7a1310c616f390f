"""A driver to be killed: `python -m tests.spark.kills.driver MASTER SPEC...`, all on one Spark.

A line per batch on standard output. It ends when its pipelines do, and at once if one fails.
"""

import os
import sys
import traceback
from pathlib import Path
from threading import Thread
from typing import Any

from barnabas.pipeline.run.running import run_spec
from barnabas.pipeline.run.session import session
from barnabas.pipeline.run.spec import Spec, load
from tests.support.spark import SHORT_LIVED


def copied(rows: Any) -> Any:
    """The transform of a stream that copies a topic."""
    return rows.select("key", "value")


def main() -> None:
    master, *paths = sys.argv[1:]
    options = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.executor.cores": "1",
        "spark.cores.max": "2",  # so that a second driver has executors, too
    }
    spark = session(master, name="killed", options=options)
    print("up", flush=True)

    def run(spec: Spec) -> None:
        try:
            run_spec(spec, spark=spark, say=lambda line: print(line, flush=True))
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    threads = [Thread(target=run, args=(load(Path(path)),)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spark.stop()


if __name__ == "__main__":
    main()
