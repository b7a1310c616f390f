"""The retry topic and the dead-letter topic of a pipeline: created when it starts, and how large
their records may be.

Always: a topic that is created here accepts larger records than the topics that the pipeline reads:
a bad row is written with more headers than it had.
"""

from collections.abc import Iterable

from barnabas.client.blocking.admin import Admin
from barnabas.model.errors import Code, KafkaError
from barnabas.pipeline.run.spec import Spec
from barnabas.pipeline.run.spec_source import source_of
from barnabas.pipeline.spark.brokers import Brokers, opened
from barnabas.pipeline.spark.options import source_options

MAX_MESSAGE_BYTES = "max.message.bytes"
_DEFAULT = 1_048_588  # Kafka's
_HEADERS_SIZE_MAX = 64 * 1024
_INT32_MAX = 2**31 - 1
_SECURITY = ("sasl.", "security.", "ssl.")


def letter_client(spec: Spec) -> dict[str, str]:
    """The options of the client that writes bad rows: the source's brokers, and its login."""
    client = source_options(source_of(spec), streaming=True).client
    return {
        name: value
        for name, value in client.items()
        if name == "bootstrap.servers" or name.startswith(_SECURITY)
    }


def ensure_letter_topics(spec: Spec) -> dict[str, int]:
    """Creates the topics, if the pipeline has them. Returns the largest record of each."""
    topics = [each for each in (spec.errors.retry_topic, spec.errors.dlq) if each is not None]
    if not topics:
        return {}
    admin = Admin(cluster=opened(letter_client(spec)))
    read = {
        at.topic for at in Brokers(source_options(source_of(spec), streaming=True)).partitions()
    }
    for topic in topics:
        size = letter_size(_size_max(admin, each) for each in read)
        try:
            admin.create_topic(topic, configs={MAX_MESSAGE_BYTES: str(size)})
        except KafkaError as problem:
            if problem.code is not Code.TOPIC_ALREADY_EXISTS:
                raise
    return {topic: _size_max(admin, topic) for topic in topics}


def letter_size(sources: Iterable[int]) -> int:
    """The largest record of a letter topic, given those of the topics that are read."""
    return min(max(sources, default=_DEFAULT) + _HEADERS_SIZE_MAX, _INT32_MAX)


def _size_max(admin: Admin, topic: str) -> int:
    try:
        options = admin.topic_options(topic)
    except KafkaError:  # it may not be allowed to ask
        return _DEFAULT
    found = [option.value for option in options if option.name == MAX_MESSAGE_BYTES]
    return int(found[0]) if found and found[0] and found[0].isdecimal() else _DEFAULT
