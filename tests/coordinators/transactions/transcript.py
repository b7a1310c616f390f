"""Transcripts of one shard of transactions (tests/transcripts.py): requests, records, markers.

Commands, and what follows from them:

    PRODUCER InitProducerId [id=tx] [timeout=60s] [version=5]
    PRODUCER AddPartitionsToTxn t:0,1       protocol 1: partitions join before their first batch
    PRODUCER AddOffsetsToTxn                offsets of a group join
    PRODUCER verifies t:0                   a leader asks whether a partition is in the transaction
    PRODUCER EndTxn commit [version=4], PRODUCER EndTxn abort
    PRODUCER restarts                       it forgets its producer id
    markers written [t:0]                   leaders have written the markers: all, or these
    wait 3s, wait 500ms                     time passes
    log lags, log commits                   replicas do not have what is written, or have it now
    coordinator moves                       another broker reads the log and continues

    log: tx: Ongoing, ...                   a record that was written: the state of the id
    p <- EndTxn: ...                        a response
    p waits                                 there is no response yet
    markers: commit of 1000/0 to t:0        markers to write; ids are PRODUCER_ID/EPOCH
    after 500 ms: ...                       what happened while time passed
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.runtime import ShardReply
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.markers import MarkersDue, MarkersWritten
from barnabas.coordinators.transactions.records import decode
from barnabas.coordinators.transactions.transaction import Partitions
from barnabas.model.errors import Code
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from barnabas.wire.records import decode_batch
from tests.coordinators.transactions.world import (
    ID,
    NOBODY,
    SHARD,
    Call,
    OffsetJournal,
    World,
    codes,
)
from tests.transcripts import ms_of, options_of

Options = dict[str, str]


class Producer:
    """What a producer knows of itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = ID
        self.identity = NOBODY


class ReportingJournal(OffsetJournal):
    """Reports every record that is written."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__()
        self._report = report

    def append(self, batch: bytearray, wall_ms: int) -> int:
        last = super().append(batch, wall_ms)
        for record in decode_batch(batch):
            assert record.key is not None
            found = decode(record.key, record.value)
            assert found is not None
            self._report(f"log: {found.transactional_id}: {_transaction(found.transaction)}")
        return last


class Session:
    """A shard, its producers, and the lines of the present command."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._producers: dict[str, Producer] = {}
        self._waiting_since: int | None = None
        self._world = ReportingWorld(self)

    def run(self, line: str) -> list[str]:
        self._lines.clear()
        self._do(line)
        return list(self._lines)

    def _do(self, line: str) -> None:
        world = self._world
        match line.split():
            case ["wait", time]:
                self._waiting_since = world.ms
                world.advance(ms_of(time))
                self._waiting_since = None
            case ["log", "lags"]:
                world.journal.lagging = True
            case ["log", "commits"]:
                world.journal.lagging = False
                world.commit_log()
            case ["coordinator", "moves"]:
                world.start()
            case ["markers", "written", *where]:
                self._markers_written(where)
            case [name, "restarts"]:
                self._producers[name] = Producer(name)
            case [name, "verifies", where]:
                self._verify(self._producer(name), where)
            case [name, api, *options]:
                self._request(self._producer(name), api, options)
            case _:
                raise ValueError(f"there is no command {line!r}")

    def report(self, line: str) -> None:
        if self._waiting_since is not None:
            line = f"after {self._world.ms - self._waiting_since} ms: {line}"
        self._lines.append(line)

    def _producer(self, name: str) -> Producer:
        return self._producers.setdefault(name, Producer(name))

    # Requests

    def _request(self, producer: Producer, api: str, words: list[str]) -> None:
        requests: dict[str, Callable[[Producer, list[str]], Call]] = {
            "InitProducerId": self._init_producer_id,
            "AddPartitionsToTxn": self._add_partitions,
            "AddOffsetsToTxn": self._add_offsets,
            "EndTxn": self._end,
        }
        if api not in requests:
            raise ValueError(f"there is no API {api!r}; expected one of {', '.join(requests)}")
        self._world.speaker = (producer, api)
        if requests[api](producer, words).waits:
            self.report(f"{producer.name} waits")

    def _init_producer_id(self, producer: Producer, words: list[str]) -> Call:
        options = options_of(words)
        producer.id = options.get("id", producer.id)
        return self._world.init(
            producer.id,
            producer.identity,
            timeout=ms_of(options.get("timeout", "60s")),
            version=int(options.get("version", "5")),
            client=producer.name,
        )

    def _add_partitions(self, producer: Producer, words: list[str]) -> Call:
        return self._world.add(producer.identity, _named(words[0]), producer.id)

    def _add_offsets(self, producer: Producer, words: list[str]) -> Call:
        return self._world.add_offsets(producer.identity, producer.id)

    def _end(self, producer: Producer, words: list[str]) -> Call:
        version = int(options_of(words[1:]).get("version", "4"))
        commit = {"commit": True, "abort": False}[words[0]]
        return self._world.end(producer.identity, commit=commit, id_=producer.id, version=version)

    def _verify(self, producer: Producer, where: str) -> None:
        self._world.speaker = None
        found = self._world.verify(producer.identity, _named(where), producer.id)
        for (topic, index), code in found.items():
            known = "in the transaction" if code is Code.NONE else code.name
            self.report(f"{topic}:{index}: {known}")

    def _markers_written(self, where: list[str]) -> None:
        world = self._world
        due = world.markers[-1]
        wanted: Mapping[str, Iterable[int]] = _named(where[0]) if where else due.partitions
        partitions = [(topic, i) for topic, found in wanted.items() for i in sorted(found)]
        written = MarkersWritten(
            due.transactional_id, due.producer_id, due.producer_epoch, partitions
        )
        world.deliver(
            world.runtime.run(
                SHARD, lambda shard: shard.markers_written([written], world.now), world.now
            )
        )

    # Responses

    def answered(self, producer: Producer, api: str, response: Any) -> None:
        if getattr(response, "producer_id", -1) >= 0:  # of InitProducerId and of EndTxn
            producer.identity = Identity(response.producer_id, response.producer_epoch)
        self.report(f"{producer.name} <- {api}: {_response(response)}")


class ReportingWorld(World):
    """Reports every response with its producer and API, and every marker that is due."""

    def __init__(self, session: Session) -> None:
        self.speaker: tuple[Producer, str] | None = None
        self._session = session
        self._speakers: list[tuple[object, Producer, str]] = []  # with the token of each request
        super().__init__(journal=ReportingJournal(session.report))

    def _run(self, verb: Any, version: int, client: str = "") -> Call:
        def with_speaker(shard: Any, caller: Caller) -> Any:
            if self.speaker is not None:
                self._speakers.append((caller.token, *self.speaker))
            return verb(shard, caller)

        return super()._run(with_speaker, version, client)

    def deliver(self, answers: list[ShardReply]) -> None:
        before = len(self.markers)
        super().deliver(answers)
        for token, response in answers:
            assert isinstance(token, Call)
            for asked, producer, api in self._speakers:
                if asked is token:
                    self._session.answered(producer, api, response)
        for due in self.markers[before:]:
            self._session.report(f"markers: {_markers(due)}")

    def start(self) -> None:
        super().start()
        for due in self.markers:
            self._session.report(f"markers: {_markers(due)}")


# Text


def _transaction(found: Any) -> str:
    if found is None:
        return "deleted"
    text = f"{found.state.title}, producer {found.producer_id}/{found.producer_epoch}"
    return text + (f", partitions {_listed(found.partitions)}" if found.partitions else "")


def _markers(due: MarkersDue) -> str:
    what = "commit" if due.commit else "abort"
    return f"{what} of {due.producer_id}/{due.producer_epoch} to {_listed(due.partitions)}"


def _response(response: Any) -> str:
    if not isinstance(response, AddPartitionsToTxnResponse):
        code = Code.of(response.error_code)
        if code is Code.NONE and getattr(response, "producer_id", -1) >= 0:
            return f"producer {response.producer_id}/{response.producer_epoch}"
        return code.name
    found = codes(Call(response))
    if len(set(found.values())) == 1:
        return next(iter(found.values())).name
    return " ".join(f"{topic}:{index} {code.name}" for (topic, index), code in found.items())


def _listed(partitions: Partitions) -> str:
    return " ".join(
        f"{topic}:{','.join(map(str, sorted(indexes)))}" for topic, indexes in partitions.items()
    )


def _named(text: str) -> dict[str, Iterable[int]]:
    """t:0,1 as a topic with its partitions."""
    topic, _, indexes = text.partition(":")
    return {topic: frozenset(int(index) for index in indexes.split(","))}
