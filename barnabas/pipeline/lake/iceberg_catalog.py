"""Catalogs of Iceberg tables, and the columns of a table: created, checked, added.

In: the options of a catalog, Arrow schemas. Out: pyiceberg's catalogs and tables.
Always: a table's columns are optional. A column may be added, and may become wider: int to long,
float to double, more digits of a decimal. Every other change is refused with one line. Credentials
come from the environment or a role.
"""

import os
import re
from dataclasses import dataclass, field
from typing import Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.file_writer import DAY, IDENTITY, PartitionField
from barnabas.pipeline.lake.store import answer_of
from barnabas.pipeline.spark.files import path_parts

_FIELD = re.compile(r"(?:(day)\(\s*([^()]+?)\s*\)|([^()]+))")
_PARTITION_TYPES = ("int", "long", "string", "date", "boolean")


@dataclass(frozen=True)
class CatalogSpec:
    """A catalog. `options`: pyiceberg's, without secrets."""

    name: str = "default"
    options: dict[str, str] = field(default_factory=dict)


def partition_field(text: str) -> PartitionField | None:
    """`COLUMN` or `day(COLUMN)`; None if it is neither."""
    found = _FIELD.fullmatch(text.strip())
    if found is None:
        return None
    return PartitionField(found[2], DAY) if found[1] else PartitionField(found[3])


def pyiceberg_or_why() -> Any:
    """The module pyiceberg. PipelineError, which says how to install it, if it is missing."""
    try:
        import pyiceberg.catalog
    except ImportError:
        raise PipelineError("pyiceberg is not installed: pip install 'barnabas[iceberg]'") from None
    return pyiceberg


def open_catalog(spec: CatalogSpec) -> Any:
    pyiceberg = pyiceberg_or_why()
    options = dict(spec.options)
    warehouse = options.get("warehouse", "")
    if warehouse and path_parts(warehouse).scheme is None and options.get("type") == "sql":
        options["warehouse"] = f"file://{os.path.abspath(warehouse)}"
    for name, value in _s3_options().items():
        options.setdefault(name, value)
    for is_last in (False, True):
        try:
            return pyiceberg.catalog.load_catalog(spec.name, **options)
        except Exception as problem:
            # Of two that open a new sql catalog at the same time, one finds the other's tables.
            if is_last or "already exists" not in str(problem):
                raise PipelineError(f"sink.catalog: {spec.name}: {answer_of(problem)}") from None
    raise AssertionError("the last attempt returns or raises")


def _s3_options() -> dict[str, str]:
    """Where S3 is; pyarrow finds the credentials by itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    found = {"s3.endpoint": endpoint, "s3.region": region}
    return {name: value for name, value in found.items() if value}


def create(catalog: Any, name: str, schema: Any, fields: tuple[PartitionField, ...]) -> Any:
    """A new table; the one that another driver created meanwhile, if there is one."""
    from pyiceberg.exceptions import TableAlreadyExistsError
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.partitioning import PartitionField as Partition
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import assign_fresh_schema_ids

    try:
        fresh = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(_optional(schema)))
    except Exception as problem:
        raise PipelineError(
            f"source.schema: Iceberg has no such type: {answer_of(problem)}"
        ) from None
    partitions = []
    for number, each in enumerate(fields):
        source = _source(fresh, each)
        named = each.column if each.transform == IDENTITY else f"{each.column}_{each.transform}"
        partitions.append(Partition(source.field_id, 1000 + number, each.transform, named))
    try:
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        return catalog.create_table(name, fresh, partition_spec=PartitionSpec(*partitions))
    except TableAlreadyExistsError:
        return catalog.load_table(name)
    except Exception as problem:
        raise PipelineError(f"sink.table: {name} cannot be created: {answer_of(problem)}") from None


def _source(schema: Any, field_: PartitionField) -> Any:
    from pyiceberg.types import DateType, TimestampType, TimestamptzType

    try:
        found = schema.find_field(field_.column)
    except ValueError:
        raise PipelineError(
            f"sink.partition_by: there is no column {field_.column!r}; the columns are"
            f" {', '.join(schema.column_names)}"
        ) from None
    is_time = isinstance(found.field_type, TimestampType | TimestamptzType | DateType)
    if field_.transform == DAY and not is_time:
        raise PipelineError(
            f"sink.partition_by: {field_.text}: the column is {found.field_type}: name a timestamp"
            " or a date"
        )
    if field_.transform == IDENTITY and str(found.field_type) not in _PARTITION_TYPES:
        raise PipelineError(
            f"sink.partition_by: {field_.column} is {found.field_type}: name a column of type"
            f" {', '.join(_PARTITION_TYPES)}, or day(COLUMN)"
        )
    return found


def table_fields(table: Any) -> list[str]:
    """The partition fields of a table, as a spec writes them."""
    schema = table.schema()
    found = []
    for each in table.spec().fields:
        column, transform = schema.find_column_name(each.source_id), str(each.transform)
        found.append(column if transform == IDENTITY else f"{transform}({column})")
    return found


def check_columns(there: Any, schema: Any, name: str) -> dict[str, Any]:
    """The columns that the table has to add or to widen. PipelineError if a column changes in
    another way.
    """
    wanted = _converted(schema)
    changed = {}
    known = {field_.name: field_ for field_ in there.fields}
    lower = {each.lower(): each for each in known}
    for each in wanted.fields:
        before = known.get(each.name)
        if before is None:
            other = lower.get(each.name.lower())
            if other is not None:
                raise PipelineError(
                    f"column {each.name} differs only in case from {other} in the table {name}:"
                    " rename it"
                )
            changed[each.name] = each.field_type
        elif not _same(before.field_type, each.field_type):
            if _narrower(before.field_type, each.field_type):
                continue  # the file's values fit
            if not _wider(before.field_type, each.field_type):
                raise PipelineError(
                    f"column {each.name} is {before.field_type} in the table {name}, and"
                    f" {each.field_type} in the spec: a column can only become wider; use another"
                    " name"
                )
            changed[each.name] = each.field_type
    return changed


def evolve(table: Any, schema: Any, name: str) -> None:
    """Adds and widens columns, before a batch that has them."""
    from pyiceberg.exceptions import CommitFailedException

    for _ in range(5):
        changed = check_columns(table.schema(), schema, name)
        if not changed:
            return
        known = {field_.name for field_ in table.schema().fields}
        try:
            with table.update_schema() as update:
                for column, type_ in changed.items():
                    if column in known:
                        update.update_column(column, field_type=type_)
                    else:
                        update.add_column((column,), type_)
        except CommitFailedException:
            pass  # another driver may have added them
        except Exception as problem:
            raise PipelineError(f"sink.table: {name}: {answer_of(problem)}") from None
        table.refresh()
    raise PipelineError(f"sink.table: {name}: other programs keep changing its columns")


def _converted(schema: Any) -> Any:
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

    try:
        return _pyarrow_to_schema_without_ids(_optional(schema))
    except Exception as problem:
        raise PipelineError(
            f"source.schema: Iceberg has no such type: {answer_of(problem)}"
        ) from None


def _optional(schema: Any) -> Any:
    import pyarrow

    return pyarrow.schema([each.with_nullable(True).remove_metadata() for each in schema])


def _same(one: Any, other: Any) -> bool:
    """Without the ids of nested fields."""
    from pyiceberg.schema import Schema, assign_fresh_schema_ids
    from pyiceberg.types import NestedField

    def fresh(type_: Any) -> Any:
        return assign_fresh_schema_ids(Schema(NestedField(1, "c", type_, required=False)))

    return bool(one == other or fresh(one).as_struct() == fresh(other).as_struct())


def _wider(before: Any, now: Any) -> bool:
    from pyiceberg.types import DecimalType

    if (str(before), str(now)) in (("int", "long"), ("float", "double")):
        return True
    return (
        isinstance(before, DecimalType)
        and isinstance(now, DecimalType)
        and before.scale == now.scale
        and before.precision < now.precision
    )


def _narrower(before: Any, now: Any) -> bool:
    return _wider(now, before)
