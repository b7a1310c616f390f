"""What must hold while a broker is fuzzed: it lives, it stays quiet, small and at service.

In: the broker process. Out: figures, or Broken.
"""

import os
import time
from pathlib import Path
from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.records import decode_batch
from tests.process import BrokerProcess
from tests.raw import TIMEOUT_S, RawClient, batch_of, name_of, records_in

HONEST = "honest-client"
HIDDEN = "canary"  # the names of topics that stay as they are begin with it
PAGE = os.sysconf("SC_PAGE_SIZE")
BAD_WORDS = (
    b"Traceback", b"request failed", b"fatal error", b"never awaited", b"Task exception",
    b"exception was never retrieved",
)  # fmt: skip


class Broken(AssertionError):
    """The broker did not hold."""


class Watch:
    """Beside the fuzzing, every so often."""

    def __init__(self, broker: BrokerProcess, log: Path) -> None:
        self._broker = broker
        self._log = log
        self._offset = 0
        self.served_s_max = 0.0
        self._client = RawClient(broker.host, broker.port)
        code = self._client.create_topic(HONEST)
        if code:
            raise Broken(f"{HONEST}: {name_of(code)}")

    def rss(self) -> int:
        try:
            statm = Path(f"/proc/{self._broker.pid}/statm").read_text()
        except FileNotFoundError:
            raise Broken(f"the broker is gone: {self._broker.log[-3000:]}") from None
        return int(statm.split()[1]) * PAGE

    def check_alive(self) -> None:
        if not self._broker.is_running():
            raise Broken(f"the broker is gone: {self._broker.log[-3000:]}")

    def check_log(self) -> None:
        """Looks at what is new, then empties the file: a million refusals are a lot of text."""
        data = self._log.read_bytes()
        for word in BAD_WORDS:
            at = data.find(word)
            if at >= 0:
                start = data.rfind(b"\n", 0, at) + 1
                raise Broken(f"in the broker's log: {data[start : at + 4000].decode()}")
        os.truncate(self._log, 0)

    def check_service(self) -> None:
        """A record in and out again, on a connection that lives on and on a new one."""
        started = time.monotonic()
        value = f"record {self._offset}".encode()
        told = self._client.produce(HONEST, batch_of(value))
        if told.error_code or told.base_offset != self._offset:
            raise Broken(f"record {self._offset} was answered {told}")
        with RawClient(self._broker.host, self._broker.port) as other:
            for client in (self._client, other):
                found = decode_batch(records_in(client.fetch(HONEST, self._offset)))
                if [record.value for record in found] != [value]:
                    raise Broken(f"record {self._offset} was read as {found}")
        self._offset += 1
        self.served_s_max = max(self.served_s_max, time.monotonic() - started)

    def renew(self, topics: list[str]) -> list[UUID]:
        """Delete what the fuzzing made, and make its topics again; their ids."""
        there = [
            topic.name
            for topic in self._client.metadata().topics
            if topic.name and topic.name != HONEST and not topic.name.startswith((HIDDEN, "__"))
        ]
        if there:
            doomed = [DeleteTopicState(name=name, topic_id=NO_TOPIC_ID) for name in there]
            request = DeleteTopicsRequest(topics=doomed, timeout_ms=round(TIMEOUT_S * 1000))
            for result in self._client.call(request, 6, DeleteTopicsResponse).responses:
                if result.error_code:
                    raise Broken(f"{result.name} not deleted: {name_of(result.error_code)}")
        for index, name in enumerate(topics):
            if code := self._client.create_topic(name, 1 + index):
                raise Broken(f"{name} not created: {name_of(code)}")
        return [t.topic_id for t in self._client.metadata().topics if t.name in topics]

    def close(self) -> None:
        self._client.close()
