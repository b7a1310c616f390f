"""Topics as a mirror finds and creates them, and the records of its own topic."""

from collections.abc import Iterable

from barnabas.client.admin.admin import EARLIEST, LATEST
from barnabas.client.blocking.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.config.resolve import ConfigSource as SetBy
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.mirror.translation import TOPIC
from barnabas.pipeline.spark.fetching import RangeFetcher
from barnabas.pipeline.spark.offsets import OffsetRange
from barnabas.wire.records import Record, decode_batch

STATE = TopicPartition(TOPIC, 0)
# Options that belong to the cluster, not to the topic: a table of the source's records has offsets
# of the source. Timestamps are kept unchanged.
_NOT_COPIED = ("leader.replication.", "follower.replication.", "message.timestamp.type", "lake")


def own_options(admin: Admin, topic: str) -> dict[str, str]:
    """The options that are set on the topic itself."""
    return {
        option.name: option.value
        for option in admin.topic_options(topic)
        if option.source == SetBy.DYNAMIC_TOPIC
        and option.value is not None
        and not option.name.startswith(_NOT_COPIED)
    }


def create(admin: Admin, topic: str, partitions: int, options: dict[str, str]) -> None:
    try:
        admin.create_topic(topic, partitions=partitions, configs=options)
    except KafkaError as problem:
        if problem.code is not Code.TOPIC_ALREADY_EXISTS:
            raise


def state_records(cluster: ClusterClient) -> Iterable[Record]:
    """The records of the translation topic; none if the topic does not exist."""
    admin = Admin(cluster=cluster)
    if TOPIC not in admin.topics().topics:
        return
    ends = [
        admin.offsets({STATE: time_}, committed_only=True)[STATE].offset
        for time_ in (EARLIEST, LATEST)
    ]
    fetching = RangeFetcher(cluster, OffsetRange(TOPIC, 0, *ends), committed_only=True)
    for header, batch in fetching.batches():
        yield from decode_batch(batch, header=header)
