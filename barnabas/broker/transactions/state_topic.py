"""Creates the topic __transaction_state."""

from barnabas.broker.context import GroupsContext
from barnabas.broker.topic import TRANSACTIONS_TOPIC
from barnabas.model.errors import Code, KafkaError


async def create_topic(broker: GroupsContext) -> None:
    """The topic of the log, unless it exists."""
    config = broker.config
    overrides = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
    }
    if broker.cluster is not None:
        overrides["min.insync.replicas"] = str(config.transaction_state_log_min_isr)
    try:
        await broker.catalog.create_topic(
            TRANSACTIONS_TOPIC, config.transaction_state_log_num_partitions, overrides
        )
    except KafkaError as error:
        if error.code is not Code.TOPIC_ALREADY_EXISTS:
            raise
