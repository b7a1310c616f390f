"""The topics of a delayer: holding topics, and for each a ledger and a dead-letter topic.

Written over `Net`, like all flows.
Always: a missing topic is created; a holding topic that could lose records before they are due is
refused, with the remedy.
"""

import logging
from typing import NamedTuple

from barnabas.client.admin.admin import Admin
from barnabas.client.metadata_snapshot import TopicMetadata
from barnabas.config.option import invalid
from barnabas.config.topic import TopicConfig
from barnabas.model.errors import Code, KafkaError

OPTION = "barnabas.scheduler"
LEDGER_SUFFIX = ".ledger"
LETTERS_SUFFIX = ".dlq"
_NAME_SIZE_MAX = 249
_KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_log = logging.getLogger("barnabas.delay")


class HoldingTopic(NamedTuple):
    """A holding topic, and the names of the topics that belong to it."""

    name: str
    topic_id: str
    partitions: int

    @property
    def ledger(self) -> str:
        return ledger_of(self.name)

    @property
    def dead_letters(self) -> str:
        return self.name + LETTERS_SUFFIX

    @property
    def reserved(self) -> frozenset[str]:
        return frozenset({self.name, self.ledger, self.dead_letters})


def ledger_of(name: str) -> str:
    return name + LEDGER_SUFFIX


async def marked_topics(admin: Admin) -> list[str]:
    """The topics with barnabas.scheduler=true."""
    names = sorted(name for name, topic in (await admin.topics()).topics.items() if _usual(topic))
    options = await admin.topics_options(names, [OPTION, *_KEPT])
    return [name for name in names if _marked(options.get(name))]


async def find_holding_topic(admin: Admin, name: str) -> HoldingTopic:
    topic = await admin.topic(name)
    return HoldingTopic(name, str(topic.id), len(topic.partitions))


async def prepare_holding_topic(admin: Admin, name: str, *, create: bool) -> HoldingTopic:
    """Creates the topics that belong to it, and with `create` itself; checks its options."""
    if len(name) + len(LEDGER_SUFFIX) > _NAME_SIZE_MAX:
        raise invalid(f"topic {name!r}: the name of a holding topic has at most 242 characters")
    if create and await _partitions(admin, name) is None:
        await _create_holding_topic(admin, name)
    await _check_options(admin, name)
    holding = await find_holding_topic(admin, name)
    ledger = await _partitions(admin, holding.ledger)
    if ledger is None:
        await _create(admin, holding.ledger, holding.partitions, _KEPT)
    elif ledger < holding.partitions:
        await admin.create_partitions(holding.ledger, holding.partitions)
    if await _partitions(admin, holding.dead_letters) is None:
        await _create(admin, holding.dead_letters, holding.partitions, {"retention.ms": "-1"})
    return holding


async def _create_holding_topic(admin: Admin, name: str) -> None:
    try:
        await _create(admin, name, -1, {OPTION: "true", **_KEPT})
    except KafkaError as problem:
        if problem.code is not Code.INVALID_CONFIG:
            raise
        await _create(admin, name, -1, _KEPT)  # Apache Kafka does not know the option


async def _check_options(admin: Admin, name: str) -> None:
    options = {option.name: option.value for option in await admin.topic_options(name)}
    for option, needed in _KEPT.items():
        value = options.get(option)
        if value != needed and value is not None:
            raise invalid(
                f"topic {name!r} has {option} = {value}: records could be removed before they are"
                f" due. Set it: barnabas topic alter {name} -c {option}={needed}"
            )


async def _create(admin: Admin, name: str, partitions: int, configs: dict[str, str]) -> None:
    try:
        await admin.create_topic(name, partitions=partitions, configs=configs)
        _log.info("topic %s: created", name)
    except KafkaError as problem:
        if problem.code is not Code.TOPIC_ALREADY_EXISTS:
            raise


async def _partitions(admin: Admin, name: str) -> int | None:
    try:
        return len((await admin.topic(name)).partitions)
    except KafkaError as problem:
        if problem.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return None


def _marked(options: dict[str, str] | KafkaError | None) -> bool:
    """False also for a topic that may not be described, and for brokers without the option."""
    if not isinstance(options, dict) or OPTION not in options:
        return False
    try:
        config = TopicConfig(options)
    except KafkaError:
        return False
    return config.barnabas_scheduler


def _usual(topic: TopicMetadata) -> bool:
    return not topic.is_internal
