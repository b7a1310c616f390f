"""A member that takes its time: `python -m tests.compat.groups.worker JSON`.

It works `work_ms` on each record and commits as it goes. SIGTERM makes it leave in good order; a
fatal error ends it, as it would a program.
"""

import json
import signal
import sys
import time
from types import FrameType

from confluent_kafka import Consumer

POLL_S = 0.1


class Ended(Exception):
    """SIGTERM: the work on a record is not waited for."""


def end(number: int, frame: FrameType | None) -> None:
    raise Ended


def main() -> None:
    options = json.loads(sys.argv[1])
    consumer = Consumer(options["settings"])
    consumer.subscribe([options["topic"]])
    signal.signal(signal.SIGTERM, end)
    try:
        while True:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                time.sleep(options["work_ms"] / 1000)
            elif error.fatal():
                return
    except Ended:
        consumer.close()


if __name__ == "__main__":
    main()
