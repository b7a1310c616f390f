"""Debian's Chromium, driven by Playwright, and axe from npm: for the tests of the console."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.cache import Missing, once, run
from tests.support.install import program

AXE = "axe-core@4.11.0"
NPM_TIMEOUT_S = 300


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
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


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
