"""What spark-submit runs: a pipeline, in the process of its driver, wherever that is.

In: a spec as JSON. Out: a line per batch and one at the end, on standard output; on standard error
one if it fails.
"""

import json
import signal
import sys
import time
from pathlib import Path

from barnabas.pipeline.errors import PipelineError, from_spark
from barnabas.pipeline.run.progress import Progress
from barnabas.pipeline.run.running import run_spec, session_of
from barnabas.pipeline.run.spec import parse
from barnabas.pipeline.run.stopping import StopRequest


def main(path: str) -> int:
    began = time.monotonic()
    progress = Progress()
    progress.watch(lambda batch: _say(str(batch)) if batch.rows else None)
    try:
        spec = parse(json.loads(Path(path).read_text()))
        spark = session_of(spec)
        stop = StopRequest()
        signal.signal(signal.SIGTERM, lambda *_: stop.ask())
        try:
            run_spec(spec, spark=spark, stop=stop, say=_say, progress=progress)
        finally:
            spark.stop()
        _say(progress.summary(spec.name, time.monotonic() - began, stopped=stop.asked))
    except Exception as problem:
        short = problem if isinstance(problem, PipelineError) else from_spark(problem)
        if short is None:
            raise
        print(f"barnabas: {short}", file=sys.stderr)
        return 1
    return 0


def _say(line: str) -> None:
    print(line, flush=True)
