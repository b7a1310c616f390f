"""`barnabas.start()` and `barnabas.connect()`: a cluster as objects that show themselves.

Always: a broker that `start` made ends with the process, or with `stop()`; its data is in memory.
At the end of a process, only its files are removed: no thread can be started any more.
"""

import atexit
import shutil
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.client.groups.diagnosis import diagnose
from barnabas.client.groups.report import GroupReport
from barnabas.model.ids import TopicPartition
from barnabas.notebook.asking import QueryResult, ask, open_clusters
from barnabas.notebook.frames import pandas_frame, polars_frame
from barnabas.notebook.reading import COLUMNS, RecordList, cells, read_records
from barnabas.notebook.shown import table, text_of
from barnabas.notebook.tables import read_table
from barnabas.sync import Admin, Producer
from barnabas.testing.groups import rebalances_of
from barnabas.testing.kafka import Kafka
from barnabas.testing.records import Data, encoded, setting_text

if TYPE_CHECKING:
    import pyarrow

RECORDS_SHOWN = 10
ROWS_SHOWN = 50


class NotebookTopic:
    """A topic: its records as messages, or as a table of Arrow, pandas or polars."""

    def __init__(self, cluster: "NotebookCluster", name: str) -> None:
        self._cluster = cluster
        self.name = name

    def send(self, *values: Data, key: Data = None) -> None:
        """Write records; a dict becomes JSON. The topic is created if it does not exist."""
        with Producer(self._cluster.settings) as producer:
            sent = [
                producer.send_nowait(self.name, encoded(value), key=encoded(key))
                for value in values
            ]
            producer.flush()
            for delivery in sent:
                delivery.result()

    def records(self, last: str | int | None = None) -> RecordList:
        """The messages, the oldest first; `last="1h"`: of the last hour; `last=100`: the last 100
        of each partition."""
        return read_records(self._cluster.admin, self._cluster.settings, self.name, last)

    def to_arrow(self, last: str | int | None = None, *, json: bool = False) -> "pyarrow.Table":
        """All records; `last="1h"`: of the last hour; `last=100`: the last 100 of each partition.

        `json`: with a column for each field of the values.
        """
        return read_table(self._cluster.admin, self._cluster.settings, self.name, last, json)

    def to_pandas(self, last: str | int | None = None, *, json: bool = False) -> Any:
        return pandas_frame(self.to_arrow(last, json=json))

    def to_polars(self, last: str | int | None = None, *, json: bool = False) -> Any:
        return polars_frame(self.to_arrow(last, json=json))

    def __len__(self) -> int:
        """Offsets from the start to the end of all partitions."""
        return sum(end - start for _, start, end, _ in self._partitions())

    def _partitions(self) -> list[tuple[int, int, int, int]]:
        from barnabas.client.admin.admin import EARLIEST, LATEST

        admin = self._cluster.admin
        partitions = admin.topic(self.name).partitions
        ats = [TopicPartition(self.name, n) for n in range(len(partitions))]
        starts = admin.offsets(dict.fromkeys(ats, EARLIEST))
        ends = admin.offsets(dict.fromkeys(ats, LATEST))
        return [
            (at.partition, starts[at].offset, ends[at].offset, partitions[at.partition].leader)
            for at in ats
        ]

    def __repr__(self) -> str:
        return f"<topic {self.name!r}, {len(self)} records>"

    def _repr_html_(self) -> str:
        shown = table(
            f"topic {self.name}",
            ("partition", "start", "end", "leader"),
            self._partitions()[:ROWS_SHOWN],
        )
        newest = self.records(last=RECORDS_SHOWN)[: -RECORDS_SHOWN - 1 : -1]
        return shown + table("newest records", COLUMNS, [cells(each) for each in newest])


class NotebookGroup:
    """A consumer group: lag, members, what is wrong, its rebalances."""

    def __init__(self, cluster: "NotebookCluster", name: str) -> None:
        self._cluster = cluster
        self.name = name

    @property
    def report(self) -> GroupReport:
        return self._cluster.admin.group_report(self.name)

    @property
    def lag(self) -> int:
        return self.report.lag

    def __repr__(self) -> str:
        found = self.report
        return f"<group {self.name!r}, {found.state}, lag {found.lag}>"

    def _repr_html_(self) -> str:
        found = self.report
        title = f"group {self.name}: {found.state}, {len(found.members)} members, lag {found.lag}"
        rows = [(str(each.at), each.committed, each.end, each.lag) for each in found.partitions]
        shown = table(title, ("partition", "committed", "end", "lag"), rows[:ROWS_SHOWN])
        findings = [(each.severity.value, each.text, each.remedy) for each in diagnose(found)]
        if findings:
            shown += table("what is wrong", ("", "finding", "remedy"), findings)
        history = [(each.generation, "; ".join(each.causes)) for each in rebalances_of(found)]
        return shown + table("rebalances", ("generation", "causes"), history[-5:])


class NotebookCluster:
    """A cluster at an address. `settings`: options of a client, by Kafka's names."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str] = {}) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.settings = {
            "client.id": "notebook",
            **settings,
            "bootstrap.servers": bootstrap_servers,
        }
        self.admin = Admin(self.settings)
        open_clusters.append(self.settings)

    def topic(self, name: str) -> NotebookTopic:
        return NotebookTopic(self, name)

    def group(self, name: str) -> NotebookGroup:
        return NotebookGroup(self, name)

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> NotebookTopic:
        self.admin.create_topic(name, partitions=partitions, configs=configs)
        return self.topic(name)

    def topics(self) -> list[str]:
        return sorted(name for name in self.admin.topics().topics if not name.startswith("__"))

    def groups(self) -> list[str]:
        return sorted(listing.group for listing in self.admin.groups())

    def sql(self, query: str) -> QueryResult:
        """Ask topics questions, with DuckDB: `kafka.sql("select count(*) from orders")`."""
        return ask(query, self.settings)

    def stop(self) -> None:
        """Close the connections."""
        open_clusters[:] = [each for each in open_clusters if each is not self.settings]
        self.admin.close()

    def __repr__(self) -> str:
        return f"<barnabas at {self.bootstrap_servers}: {_listed(self.topics())}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [
            (name, len(self.topic(name))) for name in self.topics()[:ROWS_SHOWN]
        ]
        shown = table(f"barnabas at {self.bootstrap_servers}", ("topic", "records"), rows)
        groups = [(name, self.group(name).lag) for name in self.groups()[:ROWS_SHOWN]]
        return shown + (table("groups", ("group", "lag"), groups) if groups else "")


class LocalCluster(NotebookCluster):
    """Brokers in this process, with their data in memory. `stop()` ends them."""

    def __init__(self, brokers: int, settings: Mapping[str, object]) -> None:
        self._kafka: Kafka | None = Kafka(brokers, settings=settings)
        self._kafka.__enter__()
        super().__init__(self._kafka.bootstrap_servers)
        self._directory = self._kafka.directory
        atexit.register(shutil.rmtree, self._directory, ignore_errors=True)

    def stop(self) -> None:
        kafka, self._kafka = self._kafka, None
        if kafka is not None:
            super().stop()
            kafka.close()

    def __repr__(self) -> str:
        return super().__repr__() if self._kafka is not None else "<barnabas, stopped>"


def start(brokers: int = 1, **settings: object) -> LocalCluster:
    """A broker in this process, for a notebook or a script; ready in milliseconds.

    `settings`: broker options, with underscores for dots.
    """
    return LocalCluster(brokers, {name.replace("_", "."): v for name, v in settings.items()})


def connect(bootstrap_servers: str = "localhost:9092", **settings: object) -> NotebookCluster:
    """The same view of any Kafka cluster.

    `settings`: client options, with underscores for dots, such as `security_protocol`.
    """
    dotted = {name.replace("_", "."): setting_text(value) for name, value in settings.items()}
    return NotebookCluster(bootstrap_servers, dotted)


def _listed(names: Iterable[str]) -> str:
    shown = [text_of(name) for name in names]
    return ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")
