"""The spec of a managed pipeline: of a template, and of what its topic asks for."""

import re
from typing import Any

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.managed.template import (
    LakeTemplate,
    managed_spec,
    offsets_text,
    parse_template,
)
from barnabas.pipeline.run.spec import SpecError
from tests.support.cache import ROOT

CATALOG = {"type": "sql", "uri": "sqlite:///lake.db", "warehouse": "lake"}
GIVEN: dict[str, Any] = {
    "servers": "localhost:9092",
    "checkpoint": "state",
    "catalog": CATALOG,
    "path": "lake",
    "topics": {"orders": {"source": {"format": "json", "schema": "id long"}}},
}


@pytest.fixture
def template() -> LakeTemplate:
    return parse_template(GIVEN)


def test_a_topic_without_the_option_has_no_pipeline(template: LakeTemplate) -> None:
    assert managed_spec(template, "orders", {}) is None
    assert managed_spec(template, "orders", {"lake": "none", "lake.table": "a.b"}) is None


def test_the_topic_decides_format_table_and_interval(template: LakeTemplate) -> None:
    found = managed_spec(template, "orders", {"lake": "iceberg", "lake.lag.ms": "500"})
    assert found is not None
    spec, _ = found
    assert (spec.name, spec.kind, spec.source.topics) == ("lake-orders", "lake", ("orders",))
    assert (spec.sink.format, spec.sink.table) == ("iceberg", "topics.orders")
    assert (spec.run.interval_ms, spec.run.checkpoint) == (500, "state/orders")
    assert spec.source.schema == "id long"
    named = managed_spec(template, "a.b", {"lake": "iceberg", "lake.table": "sales.b"})
    assert named is not None
    assert (named[0].sink.table, named[0].source.format) == ("sales.b", "bytes")
    delta = managed_spec(template, "orders", {"lake": "delta"})
    assert delta is not None
    assert delta[0].sink.path == "lake/orders"


def test_a_topic_cannot_choose_the_directory_of_a_table(template: LakeTemplate) -> None:
    for table in ("../../etc", "/etc/x", "a/b"):
        with pytest.raises(PipelineError, match=r"lake\.table"):
            managed_spec(template, "orders", {"lake": "delta", "lake.table": table})


def test_a_template_without_a_place_for_the_table_is_one_line() -> None:
    bare = parse_template({"servers": "localhost:9092", "checkpoint": "state"})
    with pytest.raises(PipelineError, match="asks for Iceberg: set catalog in the template"):
        managed_spec(bare, "orders", {"lake": "iceberg"})
    with pytest.raises(PipelineError, match="asks for Delta: set path in the template"):
        managed_spec(bare, "orders", {"lake": "delta"})


def test_mistakes_in_a_template_are_found_at_once() -> None:
    with pytest.raises(SpecError) as refused:
        parse_template({"servrs": "h:1", "topics": {"orders": {"format": "json"}}})
    lines = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "servers", "checkpoint", "topics.orders", "servrs",
    ]  # fmt: skip


def test_offsets_are_by_partition() -> None:
    assert offsets_text({10: 5, 2: 7}) == "2:7,10:5"


def test_the_template_on_the_page_is_one() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    page = (ROOT / "docs" / "PIPELINES.md").read_text()
    (text,) = re.findall(r"```yaml template\n(.*?)```", page, re.DOTALL)
    template = parse_template(yaml.safe_load(text))
    for format_ in ("iceberg", "delta"):
        found = managed_spec(template, "orders", {"lake": format_})
        assert found is not None
        assert found[0].errors.dlq == "orders.dlq"
