"""The report of every kernel in a real browser: no faults, nothing loaded, nothing wider than the screen; screenshots are kept.

Needed are the package playwright and a Chromium: the one that playwright installs, one on the path, or the one that the variable
PYPTO_EQSAT_BROWSER names. Without them these tests are skipped. The screenshots are in tests/artifacts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_support import KERNELS, ROOT
from test_report import chain, kernel_page, made

from pypto_ir.formats import read_any

pytestmark = pytest.mark.browser
NAMES = tuple(sorted(file.stem for file in KERNELS.glob("*.json")))
ARTIFACTS = Path(__file__).parents[1] / "artifacts"
WIDTHS = (390, 1400)
#: milliseconds that a page has to open, far more than it takes
PATIENCE = 120_000
#: pixels of a page that a picture shows: a browser does not take pictures of pages of any height
TALLEST = 4_000
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    named = os.environ.get("PYPTO_EQSAT_BROWSER") or next(filter(None, map(shutil.which, _BROWSERS)), None)
    with api.sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        path = named or (own if os.path.exists(own) else None)
        if path is None:
            pytest.skip("no Chromium: install one, run `playwright install chromium`, or name one in PYPTO_EQSAT_BROWSER")
        # the sandbox of Chromium does not start for root
        rootless = not hasattr(os, "geteuid") or os.geteuid() != 0
        found = playwright.chromium.launch(executable_path=path, args=[] if rootless else ["--no-sandbox"], timeout=PATIENCE)
        yield found
        found.close()


def opened(browser: Any, file: Path, width: int, scheme: str = "light", scripts: bool = True) -> dict[str, Any]:
    """Open a page and keep a screenshot: what went wrong, how wide it is, and what sticks out."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts)
    context.set_default_timeout(PATIENCE)
    tab, faults, requests = context.new_page(), list[str](), list[str]()
    tab.on("console", lambda message: faults.append(message.text))
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(file.as_uri())
    seen = {"faults": faults, "requests": [r for r in requests if r != file.as_uri()]}
    tall = TALLEST
    if scripts:
        seen["width"] = tab.evaluate("document.documentElement.scrollWidth")
        seen["wide"] = tab.evaluate(
            "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg')"
            " && !e.closest('.hidden') && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
        )
        tall = min(tall, tab.evaluate("document.documentElement.scrollHeight"))
        seen["background"] = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    ARTIFACTS.mkdir(exist_ok=True)
    clip = {"x": 0, "y": 0, "width": width, "height": tall}
    tab.screenshot(path=ARTIFACTS / f"{file.stem}.{width}.{scheme}.png", full_page=True, clip=clip)
    context.close()
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_report_of_every_kernel_opens_on_a_phone_and_on_a_desk(browser: Any, tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.html"
    file.write_text(kernel_page(name), encoding="utf-8")
    for width in WIDTHS:
        seen = opened(browser, file, width)
        assert (seen["faults"], seen["requests"], seen["wide"]) == ([], [], [])
        assert seen["width"] <= width
        assert (ARTIFACTS / f"{name}.{width}.light.png").stat().st_size > 10_000


def test_page_is_dark_where_the_user_wants_it_dark(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "dark.html"
    file.write_text(kernel_page("batch_acc_k_loop"), encoding="utf-8")
    light, dark = (opened(browser, file, 1400, scheme)["background"] for scheme in ("light", "dark"))
    assert sum(map(int, light[4:-1].split(","))) > 3 * 200 > 3 * 50 > sum(map(int, dark[4:-1].split(",")))


def test_page_is_shown_without_scripts(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "without_scripts.html"
    file.write_text(kernel_page("add_3d"), encoding="utf-8")
    assert opened(browser, file, 390, scripts=False)["faults"] == []


@pytest.mark.parametrize("case", ["refused", "large", "wide"])
def test_reports_of_other_programs_fit_the_screen(browser: Any, tmp_path: Path, case: str) -> None:
    refused = read_any((ROOT / "examples" / "refused.json").read_text(), "refused.json")
    program = {"refused": refused, "large": chain(60, 4, 16, 64), "wide": chain(1, 8, 96, 128)}[case]
    file = tmp_path / f"{case}.html"
    file.write_text(made(program, f"{'a_long_folder_name/' * 12}{case}.json"), encoding="utf-8")
    for width in WIDTHS:
        seen = opened(browser, file, width)
        assert (seen["faults"], seen["requests"], seen["wide"]) == ([], [], [])
        assert seen["width"] <= width
