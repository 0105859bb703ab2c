"""The page in a real Chromium: no errors, figures with their words, nothing wider than a phone, light and dark.

Skipped where Chromium is not installed, unless CI_BROWSER is set: then its absence is an error.
"""

import os
import shutil
from dataclasses import replace

import pytest

from tikhonet.paper.experiment import load_records
from tikhonet.paper.page import write_report
from tikhonet.paper.records import append_record

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SHADES = """const shade = (text) => text.match(/[0-9.]+/g).slice(0, 3).map((v) => {
    const c = v / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
  const light = (c) => { const [r, g, b] = shade(c); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const back = light(getComputedStyle(document.body).backgroundColor);
  const contrast = (c) => (Math.max(light(c), back) + 0.05) / (Math.min(light(c), back) + 0.05);
"""
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER) and not os.environ.get("CI_BROWSER"),
    reason="needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    assert CHROMIUM, "CI_BROWSER is set, but there is no chromium; apt-get install chromium"
    assert DRIVER, "CI_BROWSER is set, but there is no chromedriver; apt-get install chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    # A headless window is never in front, and elements of a window behind others get no focus events.
    driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, report):
    def open_page(width=1280, scheme="light", page=report.page):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(page.as_uri())
        browser.execute_script("try { localStorage.clear() } catch {}")
        browser.get(page.as_uri())
        return browser

    return open_page


def words_of(browser, figure):
    """The words that a figure shows where one points at its first and its last mark."""
    return browser.execute_script(
        """const marks = document.querySelectorAll(`#figure-${arguments[0]} svg title`);
        const shown = [...marks].filter((mark) => mark.parentElement.getBoundingClientRect().width > 0);
        return [shown[0].textContent, shown.at(-1).textContent]""",
        figure,
    )


def paper(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_it_loads_without_errors_and_asks_for_nothing_else(opened):
    browser = opened()
    assert browser.get_log("browser") == []
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []


@pytest.mark.parametrize("width", [1280, 360])
def test_figures_and_images_are_visible(opened, width):
    sizes = opened(width).execute_script(
        """return [...document.querySelectorAll("figure svg, figure img")].map((part) => {
            const box = part.getBoundingClientRect();
            return [box.width, box.height, part.tagName !== "IMG" || part.naturalWidth > 0];
        })"""
    )
    assert len(sizes) > 15
    assert all(width > 20 and height > 20 and drawn for width, height, drawn in sizes)


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ("a1", "Alg. 1 as printed\niteration 0:"),
        ("a2", "Stochastic BCD\nepoch 1:"),
        ("b", "mean"),
        ("c", " s of 2:"),
        ("d", "W1: 100% nonzero"),
        ("e", "Stochastic BCD\n1 epochs"),
        ("f", "100.0% nonzero"),
        ("confusion", "0 taken for 0"),
    ],
)
def test_a_figure_has_the_words_of_its_values(opened, figure, words):
    assert words in words_of(opened(), figure)[0]


def test_a_cell_of_the_certificates_has_its_figures(opened):
    assert "every block is feasible" in opened().find_element("css selector", ".mark").get_attribute("title")


@pytest.mark.parametrize("figure", ["map", "pr", "seconds"])
def test_a_figure_of_the_hashing_page_has_the_words_of_its_values(opened, hashing_report, figure):
    browser = opened(page=hashing_report.page)
    assert browser.get_log("browser") == []
    words = {"map": "16 bits: mAP", "pr": "recall 1.0000", "seconds": " s of 4:"}[figure]
    assert words in words_of(browser, figure)[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_words_of_figures_have_contrast(opened, scheme):
    script = (
        SHADES
        + """return Math.min(...[...document.querySelectorAll("svg text")].filter((part) => part.textContent)
        .filter((part) => !part.closest("#figure-confusion")).map((part) => contrast(getComputedStyle(part).fill)))"""
    )
    assert opened(scheme=scheme).execute_script(script) >= 4


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("name", ["report", "hashing_report"])
def test_nothing_is_wider_than_the_screen(opened, width, name, request):
    browser = opened(width, page=request.getfixturevalue(name).page)
    browser.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    wide = browser.execute_script(
        """const limit = arguments[0] + 0.5;
        const outside = (box) => box.right > limit || box.left < -0.5;
        return [...document.querySelectorAll("body *")]
            .filter((part) => outside(part.getBoundingClientRect()))
            .map((part) => part.outerHTML.slice(0, 80))""",
        width,
    )
    assert wide == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_dark_follows_the_system_and_the_button(opened):
    light, dark = paper(opened(scheme="light")), paper(opened(scheme="dark"))
    assert light != dark
    browser = opened(scheme="dark")
    button = browser.find_element("id", "theme")
    assert button.text == "Light"
    button.click()
    assert paper(browser) == light
    button.click()
    assert paper(browser) == dark


def test_the_pages_text_has_contrast_in_both_themes(opened):
    script = (
        SHADES
        + """const parts = "p, td, th, dt, dd, h1, h2, h3, figcaption, .verdict, .mark";
      return Math.min(...[...document.querySelectorAll(parts)].map((part) => contrast(getComputedStyle(part).color)))"""
    )
    for scheme in ("light", "dark"):
        assert opened(scheme=scheme).execute_script(script) >= 4


def test_large_counts_make_no_hashing_page_wider_than_a_phone(opened, hashing_output, tmp_path):
    for record in load_records(hashing_output):
        codes = record.codes | {"distinct": 54034, "entropy": 15.6, "tied": 0.14}
        append_record(tmp_path, replace(record, codes=codes))
    browser = opened(390, page=write_report(tmp_path).page)
    assert "54,034, 15.6 bits, 14% tied" in browser.page_source
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    widest = (
        "return Math.max(...[...document.querySelectorAll('.results *')].map((p) => p.getBoundingClientRect().right))"
    )
    assert browser.execute_script(widest) <= 390.5
