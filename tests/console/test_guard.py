"""Who may ask, and what every answer carries."""

import re

import pytest

from tests.conftest import broker_with
from tests.console.asgi import ask
from tests.console.conftest import Ask, StartConsole

broker = broker_with()
TOKEN = "a-token-of-enough-length"


async def test_every_answer_forbids_scripts_frames_and_referrers(get: Ask) -> None:
    for path in ("/", "/topics", "/nope", "/topics.json", "/static/console.css"):
        answer = await get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "DENY"


async def test_no_page_loads_anything_from_elsewhere_or_has_inline_code(get: Ask) -> None:
    paths = ("/", "/topics", "/groups", "/brokers", "/events", "/transactions", "/dlq", "/delays")
    for path in paths:
        page = (await get(path)).text
        assert not re.search(r"""(src|href|action)=["']?(https?:|//)""", page)
        assert "style=" not in page
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert not re.search(r"\son\w+=", page)


async def test_a_host_that_is_another_name_is_refused(get: Ask) -> None:
    """Or a page of another site could read this one, by a name that it points here."""
    assert (await get("/topics", headers={"host": "evil.example:8080"})).status == 403
    assert (await get("/topics", headers={"host": "localhost:8080"})).status == 200
    assert (await get("/topics", headers={"host": "[::1]:8080"})).status == 200


async def test_a_form_of_another_site_is_refused(get: Ask) -> None:
    elsewhere = {"origin": "http://evil.example"}
    form = {"value": "x", "count": "1"}
    path = "/topics/nope/produce"
    assert (await get(path, form=form, headers=elsewhere)).status == 403
    assert (await get(path, form=form, headers={"sec-fetch-site": "cross-site"})).status == 403
    assert (await get(path, form={**form, "form_token": "wrong"})).status == 403
    own = {"origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"}
    assert (await get(path, form=form, headers=own)).status == 404  # there is no such topic


async def test_requests_are_bounded(get: Ask) -> None:
    assert (await get("/topics/" + "x" * 10_000)).status == 414
    assert (await get("/topics?q=" + "x" * 20_000)).status == 414
    assert (await get("/topics", method="DELETE")).status == 405
    assert (await get("/topics/t/produce", form={"value": "x" * 2_000_000})).status == 413


async def test_a_token_becomes_a_cookie_and_leaves_the_address(start_console: StartConsole) -> None:
    app = start_console(TOKEN).guarded()
    assert (await ask(app, "/topics")).status == 401
    first = await ask(app, f"/topics?q=a&token={TOKEN}")
    assert first.status == 303
    assert first.headers["location"] == "/topics?q=a"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    session = {"cookie": cookie.partition(";")[0]}
    assert (await ask(app, "/topics", headers=session)).status == 200


async def test_tokens_cannot_be_guessed_quickly(start_console: StartConsole) -> None:
    app = start_console(TOKEN).guarded()
    answers = [(await ask(app, "/?token=wrong")).status for _ in range(7)]
    assert answers == [403] * 5 + [429] * 2
    assert (await ask(app, f"/?token={TOKEN}")).status == 429


async def test_a_login_does_not_redirect_elsewhere(start_console: StartConsole) -> None:
    app = start_console(TOKEN).guarded()
    answer = await ask(app, f"//evil.example/?token={TOKEN}")
    assert answer.headers["location"].startswith("/evil.example")


@pytest.mark.parametrize("path", ["produce", "delete"])
async def test_nothing_changes_unless_it_is_allowed(start_console: StartConsole, path: str) -> None:
    app = start_console()
    await app.state.admin.create_topic(f"guarded-{path}", partitions=1)
    form = {"form_token": app._access.form_token(), "value": "x", "name": f"guarded-{path}"}
    answer = await ask(app.guarded(), f"/topics/guarded-{path}/{path}", form=form)
    assert answer.status == 400
    assert "--allow-changes" in answer.text


async def test_files_outside_of_the_package_are_not_served(get: Ask) -> None:
    for path in ("/static/../guard.py", "/static/%2e%2e/guard.py", "/static/..%2fguard.py"):
        assert (await get(path)).status == 404
