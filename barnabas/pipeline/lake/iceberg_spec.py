"""Checks the parts of a spec that only Iceberg has: the catalog, and how the table is partitioned.

In: a section of the document. Out: mistakes in it, one line each.
Always: a spec has no credentials: they come from the environment or a role.
"""

import re
from collections.abc import Sequence

from barnabas.pipeline.run.section import Section

CATALOGS = ("sql", "rest", "glue", "hive")
_FIELD = re.compile(r"day\(\s*[^()]+?\s*\)|[^()]+")
_SECRET = re.compile(r"secret|password|token|credential|access-key|auth", re.IGNORECASE)
_PASSWORD = re.compile(r"://[^/@]*:[^/@]*@")


def check_catalog(part: Section, catalog: dict[str, str]) -> None:
    kind = catalog.get("type")
    if kind not in CATALOGS and "py-catalog-impl" not in catalog:
        part.wrong("catalog.type", kind, f"use one of {', '.join(CATALOGS)}")
    if kind in ("sql", "rest", "hive") and "uri" not in catalog:
        example = "sqlite:////data/catalog.db" if kind == "sql" else "http://HOST:PORT"
        part.wrong("catalog.uri", None, f"a catalog of type {kind} needs its address: {example}")
    for name, value in catalog.items():
        if _SECRET.search(name) or _PASSWORD.search(value):
            variable = f"PYICEBERG_CATALOG__{catalog.get('name', 'default')}__{name}"
            remedy = "a spec has no credentials: use a role, AWS_... or the environment variable"
            part.wrong(f"catalog.{name}", "...", f"{remedy} {variable.upper().replace('-', '_')}")


def check_partitions(part: Section, columns: Sequence[str]) -> None:
    for column in columns:
        if not _FIELD.fullmatch(column.strip()):
            part.wrong("partition_by", column, "use COLUMN or day(COLUMN)")
