"""`format("barnabas")`: the class that Spark finds by itself, through the module
pyspark_barnabas.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import OptionError, PipelineError, one_line
from barnabas.pipeline.formats.typed import columns_of, typed_options

if TYPE_CHECKING:
    from barnabas.pipeline.lake.union import UnionReader
    from barnabas.pipeline.spark.sink import BatchWriter, StreamWriter
    from barnabas.pipeline.spark.source import BatchReader, BrokenReader, StreamReader

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " timestampType int"
)
HEADERS = "headers array<struct<key: string, value: binary>>"
_NAMES = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


class BarnabasSource(DataSource):  # type: ignore[misc]
    """Topics of Barnabas or any Kafka, as tables and streams."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    @one_line
    def schema(self) -> str:
        if "lake" in self.options:
            from barnabas.pipeline.lake.union import lake_spec, union_columns

            return union_columns(lake_spec(self.options))
        wanted = self.options.get("includeHeaders", "false").strip().lower()
        if wanted not in ("true", "false"):
            raise OptionError(f"includeHeaders: expected true or false, got {wanted[:100]!r}")
        columns = f"{COLUMNS}, {HEADERS}" if wanted == "true" else COLUMNS
        options = typed_options(self.options)
        return columns if options is None else f"{columns}, {columns_of(options)}"

    @one_line
    def reader(self, schema: Any) -> "BatchReader | UnionReader":
        from barnabas.pipeline.spark.pushdown import asked_for

        if "lake" in self.options:
            from barnabas.pipeline.lake.union import FilteringUnionReader, UnionReader

            return (FilteringUnionReader if asked_for() else UnionReader)(self.options, schema)
        from barnabas.pipeline.spark.source import BatchReader, FilteringReader

        self._check_columns(schema)
        kind = FilteringReader if asked_for() else BatchReader
        return kind(self.options, schema)

    def streamReader(self, schema: Any) -> "StreamReader | BrokenReader":
        from barnabas.pipeline.spark.source import BrokenReader, StreamReader

        try:
            self._check_columns(schema)
            return StreamReader(self.options, schema)
        except (KafkaError, PipelineError) as problem:
            # Spark would report that there is no reader, without the reason.
            return BrokenReader(problem)

    def _check_columns(self, schema: Any) -> None:
        """Refuses another schema: Spark lets a user replace ours by any schema."""
        wanted = [name for name in schema.fieldNames() if name not in ("headers", "data", "error")]
        if wanted != _NAMES:
            raise OptionError(
                f"the columns are {', '.join(_NAMES)}: leave schema() out, and select what you want"
            )

    @one_line
    def writer(self, schema: Any, overwrite: bool) -> "BatchWriter":
        from barnabas.pipeline.spark.sink import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    @one_line
    def streamWriter(self, schema: Any, overwrite: bool) -> "StreamWriter":
        from barnabas.pipeline.spark.sink import StreamWriter

        return StreamWriter(self.options, schema)
