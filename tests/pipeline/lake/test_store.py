"""Names of files below a table, and what a store's answer may say."""

import pytest

from barnabas.pipeline.lake.store import Store, answer_of


@pytest.mark.parametrize(
    ("root", "uri", "name"),
    [
        ("/lake/orders", "/lake/orders/data/a.parquet", "data/a.parquet"),
        ("/lake/orders", "file:/lake/orders/data/a.parquet", "data/a.parquet"),
        ("/lake/orders", "file:///lake/orders/data/a.parquet", "data/a.parquet"),
        ("file:///lake//orders/", "file:///lake//orders/data/a.parquet", "data/a.parquet"),
        ("file:///x/../lake/orders", "file:///x/../lake/orders/a", "a"),
        ("/lake/orders", "/lake/orders-old/a", None),
        ("/lake/orders", "s3://lake/orders/a", None),
        ("s3://bucket/orders", "s3a://bucket/orders/data/a", "data/a"),
        ("s3://bucket/orders", "/bucket/orders/data/a", None),
        ("s3://bucket/orders", "s3://other/orders/data/a", None),
    ],
)
def test_a_file_of_the_table_is_known_however_its_path_is_written(
    root: str, uri: str, name: str | None
) -> None:
    """A file that is not recognised would be deleted as an orphan."""
    assert Store(root).name_of(uri) == name


def test_an_answer_has_no_password() -> None:
    said = answer_of(ValueError("Could not parse URL from 'postgresql://me:secret@db:x/lake'"))
    assert "secret" not in said
    assert "postgresql://...@db:x/lake" in said
