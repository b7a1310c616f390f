"""Sends the requests of window/at_least_once.py: commits, producer ids, letters; writes results.

Always: a commit is not repeated for a partition that belongs to another member; the results of a
call are written before its record is finished.
"""

import asyncio

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.producer.record import ProducerRecord
from barnabas.client.workers.driver import WindowDriver, log, send_letter
from barnabas.client.workers.letter_writer import LetterWriter
from barnabas.client.workers.result_writer import ResultWriter
from barnabas.client.workers.window.at_least_once import AtLeastOnce
from barnabas.client.workers.window.effects import Commit, Effect, Identify, SendLetter
from barnabas.model.errors import Code, Fenced, KafkaError, Retriable
from barnabas.model.ids import TopicPartition


class CommitRequests:
    """Of one run."""

    def __init__(
        self, driver: WindowDriver, cluster: ClusterClient, guarantee: AtLeastOnce
    ) -> None:
        self._driver = driver
        self._cluster = cluster
        self._guarantee = guarantee
        self._post = LetterWriter(cluster)
        self._commits: dict[TopicPartition, asyncio.Task[None]] = {}
        self._results = ResultWriter(cluster)

    async def open(self) -> None:
        """The producer is opened by the first result."""

    def start(self, effects: list[Effect]) -> None:
        commits = [effect for effect in effects if isinstance(effect, Commit)]
        if commits:
            task = self._driver.spawn(self._commit(commits))
            for commit in commits:
                self._commits[commit.at] = task
        for effect in effects:
            if isinstance(effect, Identify):
                self._driver.spawn(self._identify(effect))
            elif isinstance(effect, SendLetter):
                letters = self._guarantee.letters
                self._driver.spawn(send_letter(self._driver, self._post, letters, effect))

    def forget(self, at: TopicPartition) -> None:
        """A commit must not be retried when the partition belongs to another member."""
        commit = self._commits.pop(at, None)
        if commit is not None:
            commit.cancel()

    async def take(self, results: tuple[ProducerRecord, ...]) -> tuple[ProducerRecord, ...]:
        await self._results.write(results)
        return ()

    async def close(self) -> None:
        await self._results.close()

    async def _commit(self, commits: list[Commit]) -> None:
        driver, consumer = self._driver, self._driver.consumer
        offsets = {
            commit.at: Committed(commit.offset, metadata=commit.metadata) for commit in commits
        }
        committed = False
        try:
            if consumer.member_id:
                await consumer.commit(offsets)
                committed = True
        except asyncio.CancelledError:
            # one of its partitions belongs to another member now; the others are committed again
            pass
        except (Retriable, Fenced) as problem:
            log.info("a commit failed and will be retried: %s", problem)
        except KafkaError as problem:
            if problem.code is not Code.REBALANCE_IN_PROGRESS:
                driver.fail(problem)
        now = driver.now()
        for commit in commits:
            if self._commits.get(commit.at) is asyncio.current_task():
                del self._commits[commit.at]
            guarantee = self._guarantee
            answer = guarantee.committed if committed else guarantee.commit_failed
            driver.do(answer(commit.at, commit.term, now))

    async def _identify(self, effect: Identify) -> None:
        driver, guarantee = self._driver, self._guarantee
        try:
            identity = await self._post.identify()
        except Retriable as problem:
            log.warning("could not get a producer id, retrying: %s", problem)
            driver.do(guarantee.identify_failed(effect.at, effect.term, driver.now()))
        except KafkaError as problem:
            driver.fail(problem)
        else:
            driver.do(guarantee.identified(effect.at, effect.term, identity, driver.now()))
