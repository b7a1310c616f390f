"""Reads and writes the state of share partitions, wherever their coordinator is.

In: what leaders and the group coordinator ask. Out: a result for each share partition.
Always: writes of one turn of the loop share a batch of the log, or a request; a write is reported
when it is committed. Errors that pass are retried until the time is over.
Not here: what the coordinator decides (coordinators/share/state_shard.py).
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from traceback import format_exception
from typing import Any

from barnabas.broker.context import GroupsContext
from barnabas.broker.net.deferred_reply import settled
from barnabas.broker.shards.led_shards import NO_LEADER
from barnabas.broker.share import state_messages
from barnabas.broker.share.coordination import ShareCoordination, ShareOperation
from barnabas.coordinators.share.keys import (
    SharePartitionKey,
    StateKey,
    StateResult,
    StateSummary,
)
from barnabas.coordinators.share.state_shard import (
    StateAnswer,
    StateRead,
    StateWrite,
)
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.wire.codec import ProtocolMessage

TIMEOUT_MS = 15_000
RETRY_MS_MIN, RETRY_MS_MAX = 20, 1_000
RETRIED = frozenset(
    (
        Code.NOT_COORDINATOR,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.BROKER_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.REQUEST_TIMED_OUT,
    )
)
Written = Callable[[StateResult], None]


class ShareStates:
    """The state of share partitions, as leaders and the group coordinator use it."""

    def __init__(self, broker: GroupsContext, coordination: ShareCoordination) -> None:
        self._broker = broker
        self._loop = broker.loop
        self._coordination = coordination
        self._writes: dict[StateKey, tuple[StateWrite, list[Written]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def supported(self) -> bool:
        return True

    def stop(self) -> None:
        self._stopped = True
        for task in self._tasks:
            task.cancel()

    # Leaders

    def write(self, write: StateWrite, written: Written) -> None:
        """With the next turn of the loop; `written` is called with the result."""
        pending = self._writes.get(write.key)
        if pending is None:
            if not self._writes:
                self._loop.call_soon(self._flush)
            self._writes[write.key] = (write, [written])
            return
        before, waiting = pending
        waiting.append(written)
        # A change with dead letters may come after a later one: its start offset is lower then.
        latest = before if before.start_offset > write.start_offset else write
        merged = latest._replace(batches=before.batches + write.batches)
        self._writes[write.key] = (merged, waiting)

    def _flush(self) -> None:
        writes, self._writes = self._writes, {}
        if self._stopped:
            return
        by_shard: dict[int, list[StateWrite]] = {}
        try:
            for key, (write, _) in writes.items():
                by_shard.setdefault(self._coordination.index_of(key), []).append(write)
        except KafkaError:
            by_shard = {-1: [write for write, _ in writes.values()]}
        for index, shared in by_shard.items():
            waiting = {write.key: writes[write.key][1] for write in shared}
            if index >= 0 and self._coordination.runtime.is_active(index):
                self._write_here(index, shared, waiting)
            else:
                self._keep(self._write_later(shared, waiting))

    def _write_here(
        self, index: int, writes: list[StateWrite], waiting: dict[StateKey, list[Written]]
    ) -> None:
        """Without a task: the usual case."""

        def answered(answer: StateAnswer) -> None:
            retried: list[StateWrite] = []
            for write, result in zip(writes, answer.results, strict=True):
                if result.code in RETRIED and not self._stopped:
                    retried.append(write)
                else:
                    _tell(waiting[write.key], result)
            if retried:
                self._keep(self._write_later(retried, waiting))

        try:
            reply = self._coordination.run(
                index, lambda shard, token, now: shard.write(writes, token, now)
            )
        except KafkaError:
            self._keep(self._write_later(writes, waiting))
        else:
            reply.then(answered)

    async def _write_later(
        self, writes: list[StateWrite], waiting: dict[StateKey, list[Written]]
    ) -> None:
        try:
            results = await self._ask(
                {write.key: write for write in writes},
                write_operation,
                state_messages.write_request,
                state_messages.write_results,
                StateResult,
                TIMEOUT_MS,
            )
        except Exception as error:  # or the members, and the records, would wait for ever
            self._broker.counts.failures += 1
            self._broker.log.error(
                "state of share partitions not written",
                error=repr(error),
                trace="".join(format_exception(error)),
            )
            results = {
                write.key: StateResult(write.key[1:], Code.UNKNOWN_SERVER_ERROR) for write in writes
            }
        for key, result in results.items():
            _tell(waiting[key], result)

    async def read(
        self, key: StateKey, leader_epoch: int, timeout_ms: int = TIMEOUT_MS
    ) -> StateRead:
        found = await self._ask(
            {key: (key, leader_epoch)},
            read_operation,
            state_messages.read_request,
            state_messages.read_results,
            StateRead,
            timeout_ms,
        )
        read: StateRead = found[key]
        return read

    # The group coordinator

    async def initialize(
        self,
        group: str,
        starts: Mapping[SharePartitionKey, int],
        state_epoch: int,
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> list[StateResult]:
        asked = {
            StateKey(group, *key): (StateKey(group, *key), state_epoch, start)
            for key, start in starts.items()
        }
        found = await self._ask(
            asked,
            initialize_operation,
            state_messages.initialize_request,
            state_messages.initialize_results,
            StateResult,
            timeout_ms,
        )
        return list(found.values())

    async def delete(
        self, group: str, keys: Sequence[SharePartitionKey], *, timeout_ms: int = TIMEOUT_MS
    ) -> list[StateResult]:
        found = await self._ask(
            {StateKey(group, *key): StateKey(group, *key) for key in keys},
            delete_operation,
            state_messages.delete_request,
            state_messages.delete_results,
            StateResult,
            timeout_ms,
        )
        return list(found.values())

    async def summaries(
        self, group: str, keys: Sequence[SharePartitionKey], *, timeout_ms: int = TIMEOUT_MS
    ) -> list[StateSummary]:
        found = await self._ask(
            {StateKey(group, *key): StateKey(group, *key) for key in keys},
            summarise_operation,
            state_messages.summary_request,
            state_messages.summary_results,
            StateSummary,
            timeout_ms,
        )
        return list(found.values())

    # Asking

    async def _ask(
        self,
        asked: dict[StateKey, Any],
        here: Callable[[list[Any]], ShareOperation],
        request: Callable[[str, list[Any]], ProtocolMessage],
        results: Callable[[Any], Mapping[SharePartitionKey, Any]],
        failed: Callable[[Any, Code], Any],
        timeout_ms: int,
    ) -> dict[StateKey, Any]:
        """The result for each key, in the order of `asked`; retried while an error may pass."""
        found: dict[StateKey, Any] = {}
        deadline = self._loop.time() + timeout_ms / 1000
        wait_ms = RETRY_MS_MIN
        while True:
            left = {key: value for key, value in asked.items() if key not in found}
            answers: dict[StateKey, Any] = {}
            for task in await self._asked_once(left, here, request, results):
                answers.update(task)
            over = self._stopped or self._loop.time() >= deadline
            for key in left:
                result = answers.get(key)
                if result is None:
                    result = failed(key[1:], Code.COORDINATOR_NOT_AVAILABLE)
                if over or result.code not in RETRIED:
                    found[key] = result
            if len(found) == len(asked):
                return {key: found[key] for key in asked}
            await asyncio.sleep(wait_ms / 1000)
            wait_ms = min(2 * wait_ms, RETRY_MS_MAX)

    async def _asked_once(
        self,
        asked: dict[StateKey, Any],
        here: Callable[[list[Any]], ShareOperation],
        request: Callable[[str, list[Any]], ProtocolMessage],
        results: Callable[[Any], Mapping[SharePartitionKey, Any]],
    ) -> list[dict[StateKey, Any]]:
        try:
            await self._coordination.ready()
            by_shard: dict[int, list[StateKey]] = {}
            for key in asked:
                by_shard.setdefault(self._coordination.index_of(key), []).append(key)
        except KafkaError:
            return []
        calls: list[Coroutine[Any, Any, dict[StateKey, Any]]] = []
        remote: dict[tuple[int, str], list[StateKey]] = {}
        for index, keys in by_shard.items():
            leader = self._coordination.leader_of(index)
            if leader == self._broker.id:
                operation = here([asked[key] for key in keys])
                calls.append(self._ask_here(index, operation, keys))
            elif leader != NO_LEADER:
                for key in keys:
                    remote.setdefault((leader, key.group), []).append(key)
        for (leader, group), keys in remote.items():
            message = request(group, [asked[key] for key in keys])
            calls.append(self._ask_peer(leader, group, message, results))
        return await asyncio.gather(*calls)

    async def _ask_here(
        self, index: int, operation: ShareOperation, keys: list[StateKey]
    ) -> dict[StateKey, Any]:
        try:
            answer: StateAnswer = await settled(self._coordination.run(index, operation))
        except KafkaError:
            return {}
        found = answer.results or answer.reads or answer.summaries
        return dict(zip(keys, found, strict=True))

    async def _ask_peer(
        self,
        leader: int,
        group: str,
        request: ProtocolMessage,
        results: Callable[[Any], Mapping[SharePartitionKey, Any]],
    ) -> dict[StateKey, Any]:
        cluster = self._broker.cluster
        if cluster is None:
            return {}
        timeout_ms = self._broker.config.share_coordinator_write_timeout_ms
        try:
            response = await cluster.peers.call(
                BrokerId(leader), request, lane="share", timeout_ms=timeout_ms
            )
        except KafkaError:
            return {}
        return {StateKey(group, *key): result for key, result in results(response).items()}

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _tell(waiting: list[Written], result: StateResult) -> None:
    for written in waiting:
        written(result)


def write_operation(values: list[Any]) -> ShareOperation:
    return lambda shard, token, now: shard.write(values, token, now)


def read_operation(values: list[Any]) -> ShareOperation:
    return lambda shard, token, now: shard.read(values, token, now)


def initialize_operation(values: list[Any]) -> ShareOperation:
    return lambda shard, token, now: shard.initialize(values, token, now)


def delete_operation(values: list[Any]) -> ShareOperation:
    return lambda shard, token, now: shard.delete(values, token)


def summarise_operation(values: list[Any]) -> ShareOperation:
    return lambda shard, token, now: shard.summarise(values, token)
