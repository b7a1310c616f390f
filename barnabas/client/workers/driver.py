"""What a runner offers to the code that sends the requests of its window."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.message import Raw
from barnabas.client.producer.record import ProducerRecord
from barnabas.client.workers.letter_writer import LetterWriter
from barnabas.client.workers.window.effects import Effect, SendLetter
from barnabas.client.workers.window.window_state import IntentSender
from barnabas.model.errors import KafkaError, Retriable
from barnabas.model.ids import TopicPartition

log = logging.getLogger("barnabas.workers")


class WindowDriver(Protocol):
    """Of one run. `consumer`: once it is open."""

    @property
    def consumer(self) -> Consumer[Raw, Raw]: ...

    def now(self) -> int: ...

    def do(self, effects: list[Effect]) -> None:
        """Execute what the window has decided."""

    def spawn(self, flow: Coroutine[Any, Any, None]) -> "asyncio.Task[None]": ...

    def fail(self, problem: BaseException) -> None:
        """Stop, and raise this at the end."""


class GuaranteeRequests(Protocol):
    """Sends the requests of one guarantee, and gives it the responses."""

    async def open(self) -> None:
        """Before the consumer joins its group."""

    def start(self, effects: list[Effect]) -> None:
        """Send these requests."""

    def forget(self, at: TopicPartition) -> None:
        """The partition belongs to another worker, or was released."""

    async def take(self, results: tuple[ProducerRecord, ...]) -> tuple[ProducerRecord, ...]:
        """The results of a call, before its record is finished. Returns those to write later."""

    async def close(self) -> None: ...


async def send_letter(
    driver: WindowDriver, post: LetterWriter, letters: IntentSender, letter: SendLetter
) -> None:
    at, term = letter.at, letter.term
    try:
        there = await post.send(letter)
    except Retriable as problem:
        log.warning("%s: the record was not written yet, retrying: %s", letter.to, problem)
        driver.do(letters.send_failed(at, term, driver.now()))
    except KafkaError as problem:
        driver.do(letters.send_refused(at, term, problem.detail, driver.now()))
    else:
        log.warning("%s, offset %d: moved to %s", at, letter.offset, letter.to)
        answer = letters.sent if there else letters.send_out_of_order
        driver.do(answer(at, term, driver.now()))
