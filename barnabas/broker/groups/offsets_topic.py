"""Creates __consumer_offsets, when a group is first asked for."""

from barnabas.broker.context import GroupsContext
from barnabas.broker.topic import OFFSETS_TOPIC
from barnabas.model.errors import Code, KafkaError


async def create_offsets_topic(broker: GroupsContext) -> None:
    """Another request may have created it meanwhile."""
    config = broker.config
    overrides = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }
    try:
        await broker.catalog.create_topic(
            OFFSETS_TOPIC, config.offsets_topic_num_partitions, overrides
        )
    except KafkaError as error:
        if error.code is not Code.TOPIC_ALREADY_EXISTS:
            raise
