"""A page: its title is the answer, and it has twins in JSON and CSV.

In: what a page module found out. Out: a response in the form that the address asks for.
Always: `.json` has the fields of the command line's -J; a CSV cell never begins like a formula;
`.live` has only what changes on the page, as text by element id, with an ETag.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import Response

from barnabas.client.tables import Row, plain
from barnabas.console import charts, words
from barnabas.model.version import VERSION

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@dataclass
class View:
    """`live`: the text of elements that change. `command`: the same on the command line.

    `outline`: the parts that are not elements of `live`, such as the names of findings. If they
    change, the page is loaded again.
    """

    template: str
    title: str
    data: dict[str, Any] = field(default_factory=dict)
    document: Any = None
    rows: Sequence[Row] = ()
    columns: Sequence[str] = ()
    live: Mapping[str, str] = field(default_factory=dict)
    outline: Sequence[str] = ()
    command: str = ""
    remote: bool = True  # whether the command asks the cluster, and so needs its address
    status: int = 200
    good: bool | None = None  # whether the title is good news; None: neither


class Renderer:
    """Templates, and what all of them know."""

    def __init__(self, shared: Mapping[str, Any]) -> None:
        self._environment = Environment(
            loader=PackageLoader("barnabas.console"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(words.FILTERS)
        self._environment.globals.update(
            {**shared, "path": words.path, "charts": charts, "version": VERSION}
        )

    def response(self, view: View, request: Request, form: str) -> Response:
        if form == "json":
            body = json.dumps(view.document if view.document is not None else view.rows, indent=2)
            return Response(body + "\n", view.status, media_type="application/json")
        if form == "csv":
            return Response(csv_text(view.rows, view.columns), view.status, media_type="text/csv")
        if form == "live":
            return _live(view, request)
        template = self._environment.get_template(f"{view.template}.html")
        html = template.render(
            view=view,
            request=request,
            live=view.live,
            here=_here(request),
            outline=_outline(view),
            **view.data,
        )
        return Response(html, view.status, media_type="text/html")


def _here(request: Request) -> str:
    """The path as it was sent, so that links to its twins keep slashes within names; without the
    .html of a name that ends like a twin."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw.decode("ascii", "replace").removesuffix(".html")


def _outline(view: View) -> str:
    return sha256(json.dumps([view.good, *view.outline]).encode()).hexdigest()[:12]


def _live(view: View, request: Request) -> Response:
    texts = {"title": view.title, **view.live}
    shown = {name: words.text(value, 2_000) for name, value in texts.items()}
    shown["outline"] = _outline(view)
    body = json.dumps(shown).encode()
    tag = f'"{sha256(body).hexdigest()[:20]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def csv_text(rows: Sequence[Row], columns: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[csv_cell(row.get(column)) for column in columns] for row in rows])
    return out.getvalue()


def csv_cell(value: object) -> str:
    """Text that a spreadsheet would take for a formula gets a quote in front; numbers do not."""
    shown = plain(value)
    if isinstance(value, str) and shown.startswith(_FORMULAS):
        return f"'{shown}"
    return shown
