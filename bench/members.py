"""A process of its own with many librdkafka consumers in one group: `python -m bench.members`.

In: servers, topic, its partitions, group, protocol, members. Out, on standard output: seconds from
the first subscription until every member has the same number of partitions.
"""

import os
import sys
import time

from confluent_kafka import Consumer

POLL_S = 0.01
TIMEOUT_S = 60


def main(servers: str, topic: str, partitions: int, group: str, protocol: str, count: int) -> float:
    config: dict[str, str | int | float | bool] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": protocol,
        "log_level": 0,
    }
    members = [Consumer(config) for _ in range(count)]
    started = time.perf_counter()
    for member in members:
        member.subscribe([topic])
    share = partitions // count
    while any(len(member.assignment()) != share for member in members):
        if time.perf_counter() - started > TIMEOUT_S:
            without = sum(len(member.assignment()) != share for member in members)
            raise TimeoutError(f"{without} of {count} members without their partitions of {topic}")
        for member in members:
            message = member.poll(0)
            if message is not None and message.error() is not None:
                raise RuntimeError(str(message.error()))
        time.sleep(POLL_S)
    return time.perf_counter() - started


if __name__ == "__main__":
    servers, topic, partitions, group, protocol, count = sys.argv[1:]
    print(main(servers, topic, int(partitions), group, protocol, int(count)), flush=True)
    os._exit(0)  # if a hundred members left one by one, the rebalances would take a minute
