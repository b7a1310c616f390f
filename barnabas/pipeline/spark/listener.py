"""Queries of Spark's own `format("kafka")` as consumer groups, in one line:

    spark.streams.addListener(GroupListener("localhost:9092", group="orders"))

What Spark reports of a batch is in its checkpoint, and is committed to the group: any Kafka tool
then shows the query's lag.
"""

import json
import logging
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from barnabas.client.blocking.net import run
from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark.brokers import commit_offsets, opened
from barnabas.pipeline.spark.offsets import from_json

_LOG = logging.getLogger(__name__)


class GroupListener(StreamingQueryListener):  # type: ignore[misc]
    """Commits the progress of queries. `query`: of the one with this name only.

    Without `group`, the group is the query's name, and queries without a name are left alone.
    """

    def __init__(
        self, bootstrap_servers: str, group: str | None = None, *, query: str | None = None
    ) -> None:
        self._client = {"bootstrap.servers": bootstrap_servers}
        self._group = group
        self._query = query

    def onQueryStarted(self, event: Any) -> None:
        """Nothing has been read yet."""

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        if self._query is not None and progress.name != self._query:
            return
        group = self._group or progress.name
        if not group:
            return
        for source in progress.sources:
            if not source.description.startswith("KafkaV2[") or not source.endOffset:
                continue
            try:
                offsets = from_json(json.loads(source.endOffset), "endOffset")
                run(commit_offsets(opened(self._client), group, offsets, ""))
            except (KafkaError, PipelineError, ValueError) as problem:
                # Only lag depends on it: no reason to disturb the query.
                _LOG.warning("progress of group %r was not committed: %s", group, problem)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new was read."""

    def onQueryTerminated(self, event: Any) -> None:
        """What was read has been committed."""
