"""A console per test, on a broker that the tests of a module share."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from barnabas.config.kinds import Address
from barnabas.console.application import Application, ConsoleOptions
from barnabas.console.serving import application, console_access
from tests.console.asgi import Answer, ask
from tests.process import BrokerProcess
from tests.support.browser import chromium
from tests.support.cache import Missing
from tests.waiting import WAIT_S

Ask = Callable[..., Awaitable[Answer]]
StartConsole = Callable[..., Application]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with other work does not end a search early."""
    monkeypatch.setattr("barnabas.console.pages.records._PLAIN_S", WAIT_S)
    monkeypatch.setattr("barnabas.console.pages.sql.PLAIN_S", WAIT_S)
    monkeypatch.setattr("barnabas.console.reading.READ_MS_MAX", WAIT_S * 1000)


@pytest.fixture
async def start_console(broker: BrokerProcess) -> AsyncIterator[StartConsole]:
    async with AsyncExitStack() as running:

        def start(token: str | None = None, **options: Any) -> Application:
            servers = broker.bootstrap_servers
            given = ConsoleOptions(
                servers=servers, settings={"bootstrap.servers": servers}, **options
            )
            app = application(given, console_access(Address("127.0.0.1", 8080), token))
            running.push_async_callback(app.close)
            return app

        yield start


@pytest.fixture
async def get(start_console: StartConsole) -> Ask:
    """A page of a console that may change things."""
    app = start_console(allow_changes=True)
    guarded = app.guarded()

    async def of(path: str, **given: Any) -> Answer:
        if "form" in given:
            given["form"] = {"form_token": app._access.form_token(), **given["form"]}
        return await ask(guarded, path, **given)

    return of


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        with chromium() as running:
            yield running
    except Missing as missing:
        pytest.skip(str(missing))
