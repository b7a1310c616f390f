"""Stands before every page: bounds, Host, session, Origin, form token; adds headers to answers.

In: an ASGI request. Out: the page's answer with the headers below, or a short refusal.
Always: nothing is loaded from elsewhere, framed, sniffed, cached or sent as a referrer; no text
becomes HTML in the browser (Trusted Types); a POST comes from a form of this console.
"""

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from barnabas.console.access import COOKIE, ConsoleAccess
from barnabas.console.sessions import ClusterSessions

PATH_BYTES_MAX = 8 << 10
QUERY_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 1_200_000
POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
        "connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
        "require-trusted-types-for 'script'", "trusted-types 'none'",
    )
)  # fmt: skip
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: with it, browsers hide the Origin of the console's own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
LOGIN, LOGOUT = "/login", "/logout"
LoginPage = Callable[[Request, str, int], Response]


class Guard:
    """Wraps the application."""

    def __init__(
        self,
        app: ASGIApp,
        access: ConsoleAccess,
        login_page: LoginPage,
        sessions: ClusterSessions | None = None,
    ) -> None:
        self._app = app
        self._access = access
        self._login_page = login_page
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        request = Request(scope, receive)
        try:
            refusal = self._refusal(request) or await self._login(request)
            if refusal is None and request.method == "POST":
                refusal = await self._checked_post(request)
        except ValueError as problem:  # a form that is too large
            refusal = _said(413, str(problem))
        answer: Any = refusal or self._app
        await answer(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Response | None:
        scope = request.scope
        if request.method not in ("GET", "HEAD", "POST"):
            return _said(405, f"{request.method[:20]}: use GET or POST")
        if len(scope.get("raw_path") or b"") > PATH_BYTES_MAX:
            return _said(414, f"the path is longer than {PATH_BYTES_MAX} bytes")
        if len(scope["query_string"]) > QUERY_BYTES_MAX:
            return _said(414, f"the query is longer than {QUERY_BYTES_MAX} bytes")
        host = request.headers.get("host", "")
        if not self._access.is_own_host(host):
            return _said(
                403, f"Host {host[:100]!r} is not a name of this console: start it with --host NAME"
            )
        return None

    async def _login(self, request: Request) -> Response | None:
        """The token comes once, in the URL or in the form, and becomes a cookie."""
        access = self._access
        if request.url.path.startswith("/static/"):
            return None
        if self._sessions is not None:
            return await self._user_login(request, self._sessions)
        if access.token is None:
            return None
        given = request.query_params.get("token")
        if request.method == "POST" and request.url.path == LOGIN:
            if not _is_own_origin(request.headers):
                return _said(403, "this form was sent by another site")
            given = str((await _form(request)).get("token", ""))
        if given is None:
            if access.is_session(request.cookies.get(COOKIE, "")):
                return None
            return self._login_page(request, "", 401)
        now_ms = int(time.monotonic() * 1000)
        if not access.may_try(now_ms):
            return self._login_page(request, "Too many wrong tokens: wait a minute.", 429)
        if not access.try_token(given, now_ms):
            return self._login_page(request, "This is not the token of this console.", 403)
        return _with_cookie(request, access.session())

    async def _user_login(self, request: Request, sessions: ClusterSessions) -> Response | None:
        """A user of the cluster, whose rights the pages then have."""
        cookie = request.cookies.get(COOKIE, "")
        posted = request.method == "POST"
        if posted and request.url.path in (LOGIN, LOGOUT) and not _is_own_origin(request.headers):
            return _said(403, "this form was sent by another site")
        if posted and request.url.path == LOGOUT:
            await sessions.log_out(cookie)
            return self._login_page(request, "You are logged out.", 200)
        if posted and request.url.path == LOGIN:
            now_ms = int(time.monotonic() * 1000)
            if not self._access.may_try(now_ms):
                return self._login_page(request, "Too many wrong passwords: wait a minute.", 429)
            form = await _form(request)
            made, problem = await sessions.log_in(form.get("user", ""), form.get("password", ""))
            if not made:
                self._access.count_wrong(now_ms)
                return self._login_page(request, problem, 403)
            return _with_cookie(request, made)
        found = await sessions.find(cookie)
        if found is None:
            return self._login_page(request, "", 401)
        request.scope["barnabas.session"] = found
        return None

    async def _checked_post(self, request: Request) -> Response | None:
        if not _is_own_origin(request.headers):
            return _said(403, "this form was sent by another site")
        length = request.headers.get("content-length", "")
        if not length.isdigit() or len(length) > 9 or int(length) > BODY_BYTES_MAX:
            return _said(413, f"a form has a length, and at most {BODY_BYTES_MAX} bytes")
        form = await _form(request)
        if not self._access.is_form_token(str(form.get("form_token", ""))):
            return _said(403, "this form is too old: the console was restarted. Load it again")
        return None


async def _form(request: Request) -> dict[str, str]:
    """Fields of a form, kept in the scope for the page. More than 200 fields are refused."""
    found: dict[str, str] | None = request.scope.get("barnabas.form")
    if found is None:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_BYTES_MAX:
                raise ValueError(f"the form has more than {BODY_BYTES_MAX} bytes")
        pairs = parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=200)
        found = request.scope["barnabas.form"] = dict(pairs)
    return found


def _is_own_origin(headers: Headers) -> bool:
    """A browser sends Origin with every POST; what is no browser may leave it out."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


def _with_cookie(request: Request, value: str) -> Response:
    answer = RedirectResponse(_without_token(request), 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, value, httponly=True, samesite="strict", secure=secure, path="/")
    return answer


def _without_token(request: Request) -> str:
    left = [pair for pair in request.query_params.multi_items() if pair[0] != "token"]
    path = "/" if request.url.path == LOGIN else request.url.path
    path = "/" + path.lstrip("/\\")  # never //another.host
    return f"{path}?{urlencode(left)}" if left else path


def _said(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)
