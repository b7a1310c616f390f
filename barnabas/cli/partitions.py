"""Partitions as people name them: TOPIC, TOPIC:PARTITION, TOPIC:PARTITION=BROKER,BROKER."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from barnabas.cli.topic import find_topic, select_partitions
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin


def named_partitions(
    admin: "Admin", words: Iterable[str]
) -> list[tuple[TopicPartition, list[int] | None]]:
    """Each partition once, with the brokers that were named for it."""
    found: dict[TopicPartition, list[int] | None] = {}
    for word in words:
        name, equals, listed = word.partition("=")
        topic, colon, number = name.partition(":")
        if colon and not (number.isascii() and number.isdigit() and len(number) < 10):
            raise click.UsageError(f"{word!r}: expected TOPIC or TOPIC:PARTITION")
        if equals and not colon:
            raise click.UsageError(
                f"{word!r}: brokers are named for a partition: {topic}:0={listed}"
            )
        numbers = (int(number),) if colon else ()
        brokers = broker_ids(listed) if equals else None
        for at in select_partitions(find_topic(admin, topic), numbers):
            found[at] = brokers
    return list(found.items())


def broker_ids(text: str) -> list[int]:
    """Numbers with commas between."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 11 for word in words):
        raise click.UsageError(f"{text!r}: expected numbers of brokers with commas between")
    brokers = [int(word) for word in words]
    if len(set(brokers)) < len(brokers):
        raise click.UsageError(f"{text!r}: a broker is named twice")
    return brokers
