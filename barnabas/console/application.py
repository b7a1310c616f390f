"""Which address has which page; errors as pages.

In: a request. Out: a response. Addresses are matched on the undecoded path, so that a name may
contain a slash; one of .json, .csv, .live or .html at the end chooses the form.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from barnabas.console import words
from barnabas.console.access import ConsoleAccess
from barnabas.console.cluster_state import ConsoleCluster
from barnabas.console.guard import Guard
from barnabas.console.masking import FieldMask
from barnabas.console.sessions import ClusterSessions, ConsoleSession
from barnabas.console.values import DecodeValue
from barnabas.console.view import Renderer, View
from barnabas.model.errors import Code, InvalidRequest, KafkaError

FORMS = (".json", ".csv", ".live", ".html")
log = logging.getLogger("barnabas.console")

_STATUS = {
    Code.UNKNOWN_SERVER_ERROR: 500,
    Code.UNKNOWN_TOPIC_OR_PARTITION: 404,
    Code.GROUP_ID_NOT_FOUND: 404,
    Code.RESOURCE_NOT_FOUND: 404,
    Code.TRANSACTIONAL_ID_NOT_FOUND: 404,
    Code.OFFSET_OUT_OF_RANGE: 404,
    Code.TOPIC_AUTHORIZATION_FAILED: 403,
    Code.GROUP_AUTHORIZATION_FAILED: 403,
    Code.CLUSTER_AUTHORIZATION_FAILED: 403,
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
}


@dataclass
class ConsoleOptions:
    """As the command line gives them. `pipelines`: the pipelines of this machine, as rows.

    `decode`: with a schema registry, a framed value as text. `registry_worker`: the module that
    runs queries with it.
    """

    servers: str
    allow_changes: bool = False
    allow_export: bool = True
    pipelines: Callable[[], list[dict[str, Any]]] = field(default=list)
    settings: dict[str, str] = field(default_factory=dict)
    decode: DecodeValue | None = None
    registry: str = ""
    registry_worker: str = ""
    mask: FieldMask = field(default_factory=FieldMask)
    by_user: bool = False  # everyone logs in as a user of the cluster


@dataclass
class Asked:
    """One request, as pages see it."""

    request: Request
    state: ConsoleCluster
    options: ConsoleOptions
    names: tuple[str, ...]
    access: ConsoleAccess

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)

    def number(self, name: str, default: int, largest: int = 2**63 - 1) -> int:
        """A number from 0 on; an error if it is not one."""
        given = self.query(name)
        if not given:
            return default
        if not (given.isascii() and given.isdigit() and len(given) < 20 and int(given) <= largest):
            raise InvalidRequest(
                Code.INVALID_REQUEST, f"{name}={given[:50]!r}: expected a number up to {largest}"
            )
        return int(given)

    @property
    def form(self) -> dict[str, str]:
        """The fields of a POST; the guard has read them."""
        found: dict[str, str] = self.request.scope.get("barnabas.form", {})
        return found


Page = Callable[[Asked], Awaitable[View | Response]]


class Routes:
    """Paths of fixed words and names (None), each with its page: `module.function`."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._pages: dict[int, list[tuple[tuple[str | None, ...], str]]] = {}

    def add(self, path: str, page: str) -> None:
        """`/topics/*/config`: * is a name."""
        pattern = tuple(None if word == "*" else word for word in path.strip("/").split("/"))
        self._pages.setdefault(len(pattern), []).append((pattern, page))

    def find(self, segments: tuple[str, ...]) -> tuple[Page, tuple[str, ...]] | None:
        for pattern, page in self._pages.get(len(segments), ()):
            pairs = list(zip(pattern, segments, strict=True))
            if all(word in (None, given) for word, given in pairs):
                return self.page(page), tuple(given for word, given in pairs if word is None)
        return None

    def page(self, name: str) -> Page:
        module, _, function = name.partition(".")
        found: Page = getattr(import_module(f"{self._package}.{module}"), function)
        return found

    def names(self) -> list[str]:
        return [name for pages in self._pages.values() for _, name in pages]


class Application:
    """The pages of one cluster."""

    def __init__(
        self, state: ConsoleCluster, options: ConsoleOptions, access: ConsoleAccess, routes: Routes
    ) -> None:
        self.state = state
        self._options = options
        self._access = access
        self._routes = routes
        self._static = StaticFiles(packages=[("barnabas.console", "static")])
        self.sessions = ClusterSessions(options.settings) if options.by_user else None
        self._renderer = Renderer(
            {
                "by_user": options.by_user,
                "servers": options.servers,
                "allow_changes": options.allow_changes,
                "allow_export": options.allow_export,
                "form_token": access.form_token,
            }
        )

    def guarded(self) -> ASGIApp:
        return Guard(self, self._access, self.login_page, self.sessions)

    def open(self) -> None:
        if self.sessions is None:
            self.state.open()

    async def close(self) -> None:
        if self.sessions is not None:
            await self.sessions.close()
        await self.state.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = (scope.get("raw_path") or scope["path"].encode()).decode("ascii", "replace")
        if raw.startswith("/static/"):
            await self._asset(scope, receive, send, raw.removeprefix("/static/"))
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request, raw)
        except Exception:
            log.exception("a page failed: %s", raw[:200])
            said = "this page failed: the console's log says why"
            failed = InvalidRequest(Code.UNKNOWN_SERVER_ERROR, said)
            answer = self._failed(request, failed, "html")
        await answer(scope, receive, send)

    async def _asset(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        from starlette.exceptions import HTTPException

        try:
            answer: Response = await self._static.get_response(name, scope)
            answer.headers["cache-control"] = "no-cache"
        except HTTPException:
            answer = Response(status_code=404)
        await answer(scope, receive, send)

    async def _answer(self, request: Request, raw: str) -> Response:
        form = "html"
        for suffix in FORMS:
            if raw.endswith(suffix):
                raw, form = raw.removesuffix(suffix), suffix[1:]
                break
        trimmed = raw.strip("/")
        segments = tuple(unquote(each) for each in trimmed.split("/")) if trimmed else ("",)
        if segments in (("index",), ("overview",)):
            segments = ("",)
        found = self._routes.find(segments)
        if found is None:
            problem = InvalidRequest(Code.RESOURCE_NOT_FOUND, f"there is no page {raw[:200]!r}")
            return self._failed(request, problem, form)
        page, names = found
        session: ConsoleSession | None = request.scope.get("barnabas.session")
        state, options = self.state, self._options
        if session is not None:
            state, options = session.state, replace(options, settings=session.settings)
        asked = Asked(request, state, options, names, self._access)
        try:
            view = await page(asked)
        except KafkaError as problem:
            return self._failed(request, problem, form)
        except ValueError as problem:
            wrong = InvalidRequest(Code.INVALID_REQUEST, str(problem))
            return self._failed(request, wrong, form)
        except OSError as problem:
            wrong = InvalidRequest(Code.BROKER_NOT_AVAILABLE, str(problem))
            return self._failed(request, wrong, form)
        if isinstance(view, Response):
            return view
        return self._renderer.response(view, request, form)

    def _failed(self, request: Request, problem: KafkaError, form: str) -> Response:
        default = 400 if isinstance(problem, InvalidRequest) else 502
        view = View(
            "error",
            words.sentence(problem.detail),
            document={"error": problem.code.name, "detail": problem.detail},
            rows=[{"error": problem.code.name, "detail": problem.detail}],
            columns=["error", "detail"],
            data={"code": problem.code.name, "back": _parent(request)},
            status=_STATUS.get(problem.code, default),
            good=False,
        )
        return self._renderer.response(view, request, "json" if form == "live" else form)

    def login_page(self, request: Request, problem: str, status: int) -> Response:
        view = View("login", "Log in", data={"problem": problem}, status=status)
        return self._renderer.response(view, request, "html")


def _parent(request: Request) -> str:
    """The page above the one that failed; empty if that is the overview."""
    raw: bytes = request.scope.get("raw_path") or b""
    path = raw.decode("ascii", "replace").rpartition("/")[0]
    return path if path.startswith("/") and not path.startswith("//") else ""


def see_other(path: str) -> Response:
    """After a POST."""
    return RedirectResponse(path, 303)
