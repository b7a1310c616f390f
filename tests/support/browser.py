"""Debian's Chromium, driven by Playwright, and axe from npm: for the tests of the console."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.cache import Missing, once, run
from tests.support.install import program
from tests.waiting import WAIT_S

AXE = "axe-core@4.11.0"
NPM_TIMEOUT_S = 590


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise Missing("playwright is not installed") from None
    path = program("chromium")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(
            executable_path=path, args=arguments, timeout=WAIT_S * 1000
        )
        try:
            yield browser
        finally:
            browser.close()


def new_context(browser: Any, **options: Any) -> Any:
    """Its pages wait as long as all tests do."""
    context = browser.new_context(**options)
    context.set_default_timeout(WAIT_S * 1000)
    return context


def axe() -> Path:
    """axe's script."""
    return once("axe", _fetch_axe) / "node_modules/axe-core/axe.min.js"


def _fetch_axe(directory: Path) -> None:
    (directory / "package.json").write_text('{"private": true}\n')
    run(
        [program("npm"), "install", "--no-audit", "--no-fund", "--no-package-lock", AXE],
        cwd=directory,
        timeout_s=NPM_TIMEOUT_S,
        what="axe from npm",
    )
