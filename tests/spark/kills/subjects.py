"""The pipelines that are killed: their specs, and what must be true of what they have written."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.spark.kills import truth

TOPIC = "orders"
COPIES = "copies"  # the topic of the sinks
DEAD = "orders.dlq"
READERS = "readers"
TABLES, ONCE = "tables", "once"
SINK, KAFKA_SINK = "sink", "kafka-sink"
ON_DISK = ("parquet", "delta", "latest")
ON_S3 = ("iceberg-s3", "delta-s3")
_COLUMNS = ("_partition", "_offset", "value")
REFUSED = "was committed for other records"  # of a stream with an older checkpoint


@dataclass(frozen=True)
class Subject:
    """`claims`: what must be true in the end."""

    lakes: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    mirrors: bool = False
    claims: str = ""

    @property
    def on_s3(self) -> bool:
        return bool(set(self.lakes) & set(ON_S3))


SUBJECTS: Mapping[str, Subject] = {
    TABLES: Subject(
        ON_DISK, mirrors=True, claims="lakes have each once, mirrors have all, none is skipped"
    ),
    SINK: Subject(sinks=(SINK,), claims="the topic has each once"),
    KAFKA_SINK: Subject(sinks=(KAFKA_SINK,), claims="the topic of Apache Kafka has each once"),
    "iceberg-s3": Subject(("iceberg-s3",), claims="the table has each once, and no other file"),
    "delta-s3": Subject(("delta-s3",), claims="the table has each once, and no other file"),
    ONCE: Subject(
        ON_S3,
        (SINK, KAFKA_SINK),
        claims="both topics and both tables have each once, and the store has no other file",
    ),
}


@dataclass
class Pipelines:
    """The pipelines of one subject. `targets`: the servers of each sink and mirror."""

    subject: Subject
    directory: Path
    source: str
    targets: Mapping[str, str]
    bucket: str = ""

    # --- specs ---

    def specs(self, trigger: str, state: str = "state") -> dict[str, Path]:
        """`state`: the beginning of the names of the lakes' checkpoints."""
        import yaml

        documents: dict[str, dict[str, Any]] = {}
        for sink in self.subject.sinks:
            documents[sink] = {
                "kind": "stream",
                "transform": "tests.spark.kills.driver:copied",
                "sink": {"servers": self.targets[sink], "topic": COPIES, "exactly_once": True},
                "run": {"trigger": trigger, "checkpoint": str(self.directory / f"state-{sink}")},
            }
        for lake in self.subject.lakes:
            documents[f"lake-{lake}"] = {
                "kind": "lake",
                "sink": self._lake_sink(lake),
                "run": {"trigger": trigger, "checkpoint": str(self.directory / f"{state}-{lake}")},
            }
        if "parquet" in self.subject.lakes:  # each record is good or bad, and in one place
            documents["lake-parquet"]["errors"] = {"dlq": DEAD}
            documents["lake-parquet"]["source"] = {"format": "json", "schema": "number long"}
        if self.subject.mirrors:
            for name, offsets in (("mirror", "translated"), ("mirror-twin", "identical")):
                sink_ = {"servers": self.targets[name], "offsets": offsets}
                documents[name] = {"kind": "mirror", "sink": sink_, "run": {"trigger": trigger}}
        found = {}
        for name, document in documents.items():
            options = {"kafka.client.id": name}  # of one process, but not of one connection
            source = {"servers": self.source, "topics": [TOPIC], "options": options}
            source |= document.pop("source", {})
            found[name] = self.directory / f"{name}-{state}.yml"
            found[name].write_text(yaml.safe_dump({"name": name, "source": source, **document}))
        return found

    def _lake_sink(self, lake: str) -> dict[str, Any]:
        if lake == "iceberg-s3":
            uri = f"sqlite:///{self.directory}/catalog.db"
            catalog = {"type": "sql", "uri": uri, "warehouse": f"{self.bucket}/warehouse"}
            return {"format": "iceberg", "table": "sales.orders", "catalog": catalog}
        if lake == "delta-s3":
            return {"format": "delta", "path": f"{self.bucket}/delta"}
        return {
            "format": "parquet" if lake == "parquet" else "delta",
            "path": str(self.directory / f"lake-{lake}"),
            "keep": "latest" if lake == "latest" else "all",
        }

    # --- checkpoints ---

    def checkpoints(self, *, sinks: bool) -> list[Path]:
        names = self.subject.sinks if sinks else self.subject.lakes
        return [self.directory / f"state-{name}" for name in names]

    def copy_checkpoints(self, into: str, *, sinks: bool, only: str = "") -> None:
        """To INTO-NAME, for each pipeline of the kind."""
        for path in self.checkpoints(sinks=sinks):
            if only and path.name != f"state-{only}":
                continue
            to = path.with_name(f"{into}{path.name.removeprefix('state')}")
            shutil.rmtree(to, ignore_errors=True)
            if path.exists():
                shutil.copytree(path, to)

    def restore_checkpoints(self, from_: str, *, sinks: bool) -> None:
        """From FROM-NAME; without that, the checkpoint is deleted."""
        for path in self.checkpoints(sinks=sinks):
            shutil.rmtree(path, ignore_errors=True)
            before = path.with_name(f"{from_}{path.name.removeprefix('state')}")
            if before.exists():
                shutil.copytree(before, path)

    # --- upkeep ---

    def maintain(self, *, all_: bool) -> None:
        """`all_`: nothing runs, so every file that no table names is deleted."""
        from barnabas.pipeline.lake.upkeep import maintain
        from barnabas.pipeline.run.spec import load

        for name, path in self.specs("300ms", "maintain").items():
            if name.removeprefix("lake-") in ON_S3:
                old_s = -1 if all_ else 300
                maintain(load(path), snapshots_s=-1 if all_ else 60, orphans_s=old_s)

    # --- what must be true ---

    def check(self, *, whole: bool) -> None:
        """Tables and targets are read before the source: it has all that is there."""
        copies = {
            name: truth.committed_values(self.targets[name], COPIES) for name in self.subject.sinks
        }
        rows: dict[str, Any] = {}
        for lake in self.subject.lakes:
            if lake == "parquet":
                rows["parquet and dead letters"] = truth.parquet_rows(
                    self.directory / "lake-parquet"
                ) + truth.dead_rows(self.source, DEAD)
            elif lake == "iceberg-s3":
                rows[lake] = truth.iceberg_rows(self._lake_sink(lake), _COLUMNS)
            elif lake != "latest":
                rows[lake] = truth.delta_rows(self._lake_sink(lake)["path"], _COLUMNS)
        source = truth.read(self.source, TOPIC)
        for name, found in copies.items():
            truth.check_sink(name, found, source, whole=whole)
        for name, lake_rows in rows.items():
            truth.check_lake(name, lake_rows, source, whole=whole)
        if "latest" in self.subject.lakes and whole:
            latest = truth.delta_rows(str(self.directory / "lake-latest"), ("key", "value"))
            truth.check_latest("latest", latest, truth.read(self.source, TOPIC))
        if self.subject.mirrors:
            target, twin = self.targets["mirror"], self.targets["mirror-twin"]
            truth.check_mirror(self.source, target, TOPIC, READERS, whole=whole)
            truth.check_identical(self.source, twin, TOPIC, whole=whole)
        if whole and self.subject.on_s3:
            self._check_orphans()
            # Still there after cleaning.
            for lake in rows:
                again = (
                    truth.iceberg_rows(self._lake_sink(lake), _COLUMNS)
                    if lake == "iceberg-s3"
                    else truth.delta_rows(self._lake_sink(lake)["path"], _COLUMNS)
                )
                truth.check_lake(lake, again, source, whole=True)

    def _check_orphans(self) -> None:
        self.maintain(all_=True)
        for lake in self.subject.lakes:
            truth.check_no_orphans(lake, self._lake_sink(lake))


def use_environment(given: Mapping[str, str]) -> None:
    """Of this process, and of those that it starts."""
    os.environ |= dict(given)
