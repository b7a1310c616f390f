"""Columns that a user writes: what Spark takes is taken, and a mistake is one line."""

import pytest

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.formats.ddl import check_columns_text, struct_type


@pytest.mark.parametrize(
    "text",
    [
        "id long",
        "id: long, name: string",
        "`a b` INT NOT NULL COMMENT 'it''s', b decimal(10,2)",
        "a array<struct<x:int,y:map<string,array<double>>>>, b timestamp",
        "a struct<b: struct<c: date>>,\n  d varchar(10) COMMENT 'x'",
    ],
)
def test_what_spark_takes_is_taken(text: str) -> None:
    check_columns_text(text, "valueSchema")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text is empty"),
        ("id lnog", "column id cannot be of type 'lnog'; did you mean long"),
        ("id", "the type of column id is missing at the end"),
        ("id long name string", "expected a comma after column id, got 'name'"),
        ("id long,", "the name of a column is missing at the end"),
        ("id long, ID int", "there are two columns named ID"),
        ("a array<int", "'>' is missing at the end"),
        ("a map<string>", "expected ',' after the keys of a map, got '>'"),
        ("a struct<x>", "the type of column x cannot|column x cannot be of type '>'"),
        ("a interval", "column a cannot be of type 'interval'"),
        ("id long; name string", "'; name string' is not allowed there"),
        ("order.avsc", "'.avsc' is not allowed there"),
        ("a " + "array<" * 100, "nested too deeply"),
        ("a decimal(10", r"'\)' is missing at the end"),
    ],
)
def test_a_mistake_is_one_line(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said) as refused:
        check_columns_text(text, "valueSchema")
    assert str(refused.value).startswith("valueSchema: ")
    assert "\n" not in str(refused.value)


def test_the_type_of_columns_is_made_without_java() -> None:
    pytest.importorskip("pyspark")
    text = "id long not null, `a b` decimal(10,2), c array<struct<x:int,y:map<string,date>>>"
    found = struct_type(text)
    assert found.simpleString() == (
        "struct<id:bigint,a b:decimal(10,2),c:array<struct<x:int,y:map<string,date>>>>"
    )
    assert [field.nullable for field in found.fields] == [False, True, True]
