"""Names of columns that a reader of the table could not tell apart."""

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.lake import check_names
from barnabas.pipeline.lake.parquet import last_version

OURS = ["_topic", "_partition", "_offset", "_ts"]


@pytest.mark.parametrize(
    ("names", "columns", "format_", "said"),
    [
        (["id", "Date"], ["date"], "delta", "'Date' would be hidden by 'date', the day"),
        (["id", "batch"], ["date"], "parquet", "'batch' would be hidden by 'batch', the name of a"),
        (["BATCH"], [], "parquet", "'BATCH' would be hidden"),
        (["_Topic"], [], "delta", "'_Topic' and '_topic' differ only in case"),
        (["_offset"], [], "parquet", "'_offset' and '_offset' differ only in case, or not at all"),
        (["Id", "id"], [], "delta", "'Id' and 'id' differ only in case"),
    ],
)
def test_a_name_that_would_hide_another_column_is_refused(
    names: list[str], columns: list[str], format_: str, said: str
) -> None:
    with pytest.raises(PipelineError, match=said) as caught:
        check_names([*names, *OURS], columns, format_)
    assert "rename" in str(caught.value)


@pytest.mark.parametrize(
    ("names", "columns", "format_"),
    [
        (["id", "date"], ["date"], "parquet"),  # the table is partitioned by it
        (["Date"], ["id"], "delta"),
        (["batch"], ["date"], "delta"),
        (["key", "value"], ["date"], "parquet"),
    ],
)
def test_other_names_are_left_alone(names: list[str], columns: list[str], format_: str) -> None:
    check_names([*names, *OURS], columns, format_)


def test_the_last_version_of_a_query_is_found_among_other_names() -> None:
    names = ["batch=q-000000001", "batch=q-000000012", "batch=q2-000000099", "_unfinished",
             "batch=q-x", "other"]  # fmt: skip
    assert last_version(names, "q") == 12
    assert last_version(names, "none") == -1
