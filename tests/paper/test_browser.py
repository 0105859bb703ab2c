"""The page in a real Chromium: no errors, figures that answer, nothing wider than a phone, light and dark.

Skipped where Chromium is not installed, unless CI_BROWSER is set: then its absence is an error.
"""

import os
import shutil

import pytest

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


def point_at(browser, figure):
    """Move the mouse onto a figure's first mark; the text that is shown there."""
    place = browser.execute_script(
        """const svg = document.querySelector(`#figure-${arguments[0]} svg`);
        svg.scrollIntoView({block: "center"});
        const [x, y] = JSON.parse(svg.nextElementSibling.textContent)[0].at(-1);
        const place = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
        return [place.x, place.y];""",
        figure,
    )
    event = {"type": "mouseMoved", "x": place[0] + 1, "y": place[1] + 1}
    browser.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    return browser.execute_script("const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.innerText")


def paper(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_it_loads_without_errors_and_asks_for_nothing_else(opened):
    browser = opened()
    assert browser.get_log("browser") == []
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []


@pytest.mark.parametrize("width", [1280, 390])
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
        ("a1", "Alg. 1 as printed\niteration 4:"),
        ("a2", "Stochastic BCD\nepoch 2:"),
        ("b", "mean"),
        ("c", " s of 2:"),
        ("d", "V: 100% nonzero"),
        ("confusion", "0 taken for 9"),
    ],
)
def test_pointing_at_a_figure_shows_a_value(opened, figure, words):
    assert words in point_at(opened(), figure)


def test_arrow_keys_show_values_too(opened):
    from selenium.webdriver.common.keys import Keys

    browser = opened()
    svg = browser.find_element("css selector", "#figure-a1 svg")
    shown = []
    for key in (Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_DOWN):
        svg.send_keys(key)
        shown.append(browser.find_element("id", "tip").text)
    assert len(set(shown)) == 3
    svg.send_keys(Keys.ESCAPE)
    assert not browser.find_element("id", "tip").is_displayed()


def test_a_cell_of_the_certificates_shows_its_figures(opened):
    browser = opened()
    mark = browser.find_element("css selector", ".mark")
    browser.execute_script("arguments[0].focus()", mark)
    assert "every block is feasible" in browser.find_element("id", "tip").text


@pytest.mark.parametrize("figure", ["map", "pr", "seconds"])
def test_pointing_at_a_figure_of_the_hashing_page_shows_a_value(opened, hashing_report, figure):
    browser = opened(page=hashing_report.page)
    assert browser.get_log("browser") == []
    words = {"map": "16 bits: mAP", "pr": "recall 1.0000", "seconds": " s of 4:"}[figure]
    assert words in point_at(browser, figure)


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("name", ["report", "hashing_report"])
def test_nothing_is_wider_than_the_screen(opened, width, name, request):
    browser = opened(width, page=request.getfixturevalue(name).page)
    browser.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    wide = browser.execute_script(
        """const limit = document.documentElement.clientWidth + 0.5;
        const outside = (box) => box.right > limit || box.left < -0.5;
        return [...document.querySelectorAll("body *")].filter((part) => !part.closest("#tip"))
            .filter((part) => outside(part.getBoundingClientRect()))
            .map((part) => part.outerHTML.slice(0, 80))"""
    )
    assert wide == []


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
    script = """const shade = (text) => text.match(/[0-9.]+/g).slice(0, 3).map((v) => {
        const c = v / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
      const light = (c) => { const [r, g, b] = shade(c); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const back = light(getComputedStyle(document.body).backgroundColor);
      return Math.min(...[...document.querySelectorAll("p, td, th, dt, dd, h1, h2, h3, figcaption, .verdict, .mark")]
        .map((part) => { const l = light(getComputedStyle(part).color);
          return (Math.max(l, back) + 0.05) / (Math.min(l, back) + 0.05); }))"""
    for scheme in ("light", "dark"):
        assert opened(scheme=scheme).execute_script(script) >= 4
