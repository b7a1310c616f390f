"""Runs the pipelines that topics ask for, all on one Spark, and reports what is in their tables.

In: a template, the options of topics, read every few seconds. Out: running pipelines; the topic
option `lake.offsets`, for topics whose retention waits.
Always: `lake.offsets` is never ahead of the table, nor of Spark's checkpoint: it is the lower one
of the table's offsets and of those that the pipeline's group has committed. A pipeline that fails
is started again, later each time; the others go on. If Spark itself ends, so does the program.
Not here: which topics ask (lake_topics.py), whose table it is (tables.py).
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError, from_spark
from barnabas.pipeline.managed.lake_topics import LakeTopics
from barnabas.pipeline.managed.tables import check_owner, table_ends, target
from barnabas.pipeline.managed.template import (
    LakeTemplate,
    managed_spec,
    offsets_text,
    waits,
)
from barnabas.pipeline.run.metrics import MeasuredRun
from barnabas.pipeline.run.progress import Progress
from barnabas.pipeline.run.roster import directory, enrolled
from barnabas.pipeline.run.running import run_spec
from barnabas.pipeline.run.spec import Spec
from barnabas.pipeline.run.stopping import StopRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S = 5.0
LOOKS_SHARE = 20  # a look that takes long is followed by a pause that is this much longer
OFFSETS_EVERY_S = 30.0
AGAIN_S_MIN, AGAIN_S_MAX = 5.0, 300.0
_JOIN_S = 0.2

Say = Callable[[str], None]


class ManagedPipeline(Thread):
    """One pipeline, started again when it fails."""

    def __init__(
        self, spec: Spec, document: Mapping[str, Any], spark: "SparkSession", say: Say
    ) -> None:
        super().__init__(name=spec.name, daemon=True)
        self.spec = spec
        self.document = document
        self._spark = spark
        self._say = say
        self.stop = StopRequest()
        self.progress = Progress()  # of the last run

    def run(self) -> None:
        wait_s = AGAIN_S_MIN
        while not self.stop.asked:
            begun = time.monotonic()
            line = "it has ended by itself"
            try:
                self._run_once()
            except Exception as problem:
                said = problem if isinstance(problem, PipelineError) else from_spark(problem)
                line = (str(said or problem).splitlines() or [type(problem).__name__])[0]
            if self.stop.asked:
                return
            if time.monotonic() - begun > AGAIN_S_MAX:
                wait_s = AGAIN_S_MIN
            self.progress.failed = f"{line}; again in {wait_s:.0f} s"
            self._say(f"{self.spec.name}: {self.progress.failed}")
            self.stop.wait(wait_s)
            wait_s = min(wait_s * 2, AGAIN_S_MAX)

    def _run_once(self) -> None:
        check_owner(self.spec)
        with enrolled(self.spec, self._written_spec(), managed=True) as entry:
            progress = self.progress = Progress()
            entry.follow(progress, None)
            try:
                run_spec(
                    self.spec, say=self._say, spark=self._spark, progress=progress, stop=self.stop
                )
            except Exception as problem:
                entry.ended(str(from_spark(problem) or problem))
                raise
            entry.ended(None)

    def _written_spec(self) -> Path:
        """For `pipeline explain` and the like; it may have a login."""
        import yaml

        path = directory() / f"{self.spec.name}.yml"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(made, "w", encoding="utf-8") as file:
            file.write(yaml.safe_dump(dict(self.document)))
        return path


class LakeServer:
    """Keeps the pipelines as the topics ask for them."""

    def __init__(
        self, template: LakeTemplate, spark: Callable[[], "SparkSession"], say: Say
    ) -> None:
        """`spark`: called when the first pipeline starts."""
        self._template = template
        self._start_spark = spark
        self._spark: SparkSession | None = None
        self._say = say
        client = {**template.client, "bootstrap.servers": template.servers}
        self._topics = LakeTopics(client, say)
        self._running: dict[str, ManagedPipeline] = {}
        self._stopping: dict[str, ManagedPipeline] = {}
        self._said: dict[str, str] = {}  # the last problem of each topic
        self._reported: dict[str, str] = {}
        self._reported_at = -OFFSETS_EVERY_S

    def serve(self, stop: StopRequest) -> None:
        """Until a stop is requested; then each pipeline finishes its batch."""
        last = ""
        try:
            while not stop.asked:
                begun = time.monotonic()
                try:
                    self.look()
                    last = ""
                except KafkaError as problem:
                    if problem.detail != last:
                        self._say(f"the topics cannot be read: {problem.detail}; trying again")
                    last = problem.detail
                    self._topics.close()
                stop.wait(max(LOOK_S, LOOKS_SHARE * (time.monotonic() - begun)))
        finally:
            self._end(stop)

    def _end(self, stop: StopRequest) -> None:
        left = [*self._running.values(), *self._stopping.values()]
        for each in left:
            each.stop.ask()
        cut_off = False
        while any(each.is_alive() for each in left):
            if stop.at_once and not cut_off:
                cut_off = True
                for each in left:
                    each.stop.ask()
            for each in left:
                each.join(_JOIN_S)
        self._topics.close()

    def runs(self) -> list[MeasuredRun]:
        """For Prometheus, from another thread."""
        return [
            MeasuredRun(each.spec.name, each.progress, each.spec.run.interval_ms)
            for each in list(self._running.values())
        ]

    def look(self) -> None:
        """One look at the topics. PipelineError if Spark has ended."""
        self._check_spark()
        asked = self._topics.asking()
        self._stopping = {topic: each for topic, each in self._stopping.items() if each.is_alive()}
        self._stop_others(asked)
        # A table that is named like its topic goes to that topic.
        for topic, options in sorted(
            asked.items(), key=lambda each: (bool(each[1].get("lake.table")), each[0])
        ):
            if topic not in self._running and topic not in self._stopping:
                self._start(topic, options)
        if time.monotonic() - self._reported_at >= OFFSETS_EVERY_S:
            self._reported_at = time.monotonic()
            for topic, options in asked.items():
                if waits(options) and topic in self._running:
                    self._report(topic)
        self._said = {topic: said for topic, said in self._said.items() if topic in asked}
        self._reported = {topic: text for topic, text in self._reported.items() if topic in asked}

    def _check_spark(self) -> None:
        if self._spark is None:
            return
        try:
            ended = bool(self._spark.sparkContext._jsc.sc().isStopped())
        except Exception:  # its process is gone
            ended = True
        if ended:
            raise PipelineError("Spark has ended, and all pipelines with it: run this again")

    def _start(self, topic: str, options: Mapping[str, str]) -> None:
        try:
            managed = managed_spec(self._template, topic, options)
            if managed is None:
                return
            self._check_free(managed[0])
        except (PipelineError, KafkaError) as problem:
            self._say_once(topic, str(problem).splitlines()[0])
            return
        self._said.pop(topic, None)
        spec, document = managed
        self._say(f"{spec.name}: {topic} goes to {spec.sink.format} {target(spec)}")
        if self._spark is None:
            self._spark = self._start_spark()
        pipeline = ManagedPipeline(spec, document, self._spark, self._say)
        self._running[topic] = pipeline
        pipeline.start()

    def _check_free(self, spec: Spec) -> None:
        """Two topics may name one table, also by a dot in one and an underscore in the other."""
        for other in (*self._running.values(), *self._stopping.values()):
            if target(other.spec) == target(spec) and other.spec.name != spec.name:
                raise PipelineError(
                    f"{target(spec)} is the table of {other.spec.name}:"
                    " set lake.table to another table"
                )

    def _say_once(self, topic: str, said: str) -> None:
        if self._said.get(topic) != said:
            self._say(f"topic {topic}: {said}")
        self._said[topic] = said

    def _stop_others(self, asked: Mapping[str, Mapping[str, str]]) -> None:
        """Those that no topic asks for any more, or that it asks for otherwise. They finish their
        batch.
        """
        for topic, pipeline in list(self._running.items()):
            try:
                managed = managed_spec(self._template, topic, asked.get(topic, {}))
            except (PipelineError, KafkaError):
                managed = None
            if managed is not None and managed[1] == pipeline.document:
                continue
            self._say(f"{pipeline.spec.name}: its topic does not ask for it any more: stopping")
            pipeline.stop.ask()
            self._stopping[topic] = self._running.pop(topic)

    def _report(self, topic: str) -> None:
        """A problem of one topic is no problem of others."""
        spec = self._running[topic].spec
        admin = self._topics.admin
        try:
            ends = table_ends(spec, admin.topic(topic))
            committed = {
                at.partition: min(each.offset, ends[at.partition])
                for at, each in admin.group_offsets(spec.source.group).items()
                if at.topic == topic and at.partition in ends
            }
            text = offsets_text(committed)
            if text and self._reported.get(topic) != text:
                admin.alter_topic(topic, put={"lake.offsets": text})
                self._reported[topic] = text
        except (PipelineError, KafkaError) as problem:
            self._say_once(topic, f"lake.offsets is not set: {str(problem).splitlines()[0]}")


def load_template(path: Path) -> LakeTemplate:
    from barnabas.pipeline.managed.template import parse_template
    from barnabas.pipeline.run.spec import read_document

    return parse_template(read_document(path))
