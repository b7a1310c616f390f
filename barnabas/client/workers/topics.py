"""The topics that a worker writes to: the retry topic and the dead-letter topic.

Always: one that is missing is made, with as many partitions as the topic it is for.
"""

import asyncio
import logging
from collections.abc import Iterable

from barnabas.client.admin.admin import Admin
from barnabas.model.errors import Code, KafkaError

_log = logging.getLogger("barnabas.workers")
_LOOK_S = 0.05


async def prepared(admin: Admin, names: Iterable[str | None], *, like: str) -> dict[str, int]:
    """How many partitions each of them has; None stands for no topic."""
    counts: dict[str, int] = {}
    for name in names:
        if name is None:
            continue
        found = await _partitions(admin, name)
        counts[name] = await _created(admin, name, like) if found is None else found
    return counts


async def _created(admin: Admin, name: str, like: str) -> int:
    partitions = len((await admin.topic(like)).partitions)
    try:
        await admin.create_topic(name, partitions=partitions)
        _log.info("topic %s: created with %d partitions", name, partitions)
    except KafkaError as problem:
        if problem.code is not Code.TOPIC_ALREADY_EXISTS:
            raise
    # A topic just made is not known to every broker at once.
    while True:
        found = await _partitions(admin, name)
        if found is not None:
            return found
        await asyncio.sleep(_LOOK_S)


async def _partitions(admin: Admin, name: str) -> int | None:
    try:
        return len((await admin.topic(name)).partitions)
    except KafkaError as problem:
        if problem.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return None
