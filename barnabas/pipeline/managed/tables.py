"""What a managed pipeline asks its table: whose rows it has, and where they end.

In: the spec of the pipeline. Out: offsets, or PipelineError.
Always: a pipeline that a topic asks for adds rows only to a table without rows, or with rows of its
own: a user who may alter a topic must not write into the tables of others.
"""

from typing import Any

from barnabas.client.metadata_snapshot import TopicMetadata
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.batch_commit import NONE
from barnabas.pipeline.lake.lake import table_offsets
from barnabas.pipeline.run.spec import Spec


def target(spec: Spec) -> str:
    return str(spec.sink.table or spec.sink.path)


def check_owner(spec: Spec) -> None:
    """PipelineError if the table has rows, and none of this pipeline."""
    if _has_rows_of_others(spec):
        raise PipelineError(
            f"{target(spec)} has rows that {spec.name} has not written: set lake.table of the topic"
            " to another table, or run a pipeline with a spec of its own"
        )


def _has_rows_of_others(spec: Spec) -> bool:
    if spec.sink.format == "iceberg":
        from barnabas.pipeline.lake.iceberg_table import iceberg_log

        log = iceberg_log(spec)
        if not log.exists() or log.table.current_snapshot() is None:
            return False
        return log.state_of_open_table().version == NONE
    from barnabas.pipeline.lake.delta_table import DeltaTable

    return DeltaTable(spec).has_rows_of_others()


def table_ends(spec: Spec, topic: TopicMetadata) -> dict[int, int]:
    """Up to where the table has rows of each partition; without those that it has none of."""
    partitions = [TopicPartition(topic.name, each.number) for each in topic.partitions]
    none: Any = dict.fromkeys(partitions, -1)
    found = table_offsets(spec, none, {topic.name: topic.id})
    return {at.partition: offset for at, offset in found.items() if offset >= 0}
