"""Names and numbers that identify things, each with a type of its own.

Not here: anything that looks an id up.
"""

import re
from typing import NamedTuple, NewType
from uuid import UUID

from barnabas.model.errors import Code, InvalidRequest

BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)

NO_TOPIC_ID = UUID(int=0)
NO_PRODUCER_ID = ProducerId(-1)

TOPIC_NAME_LENGTH_MAX = 249
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


class TopicPartition(NamedTuple):
    """One partition of one topic; its text is also the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def check_topic_name(name: str) -> str:
    """Refuse what Kafka refuses; a name that passes is safe as part of a file name."""
    if not name:
        problem = "it is empty"
    elif name in (".", ".."):
        problem = "'.' and '..' are not names"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = f"it has {len(name)} characters, {TOPIC_NAME_LENGTH_MAX} at most"
    elif not _TOPIC_NAME.fullmatch(name):
        problem = "only ASCII letters, digits, '.', '_' and '-' are allowed"
    else:
        return name
    raise InvalidRequest(Code.INVALID_TOPIC_EXCEPTION, f"topic name {name[:300]!r}: {problem}")
