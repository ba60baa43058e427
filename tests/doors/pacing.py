"""The page of campaigns in headless Chromium:  pacing.py BINARY [PICTURES]

The server runs with config/pacing.toml, which is its own market, with a day of half a minute. The page asks for a
token, refuses a wrong one, draws seven campaigns with what they were to spend and have spent, finds some by how their
ids begin, opens one, and follows light and dark. It loads nothing from elsewhere, and writes no error to its console.
With PICTURES, a folder, screenshots are saved there.
"""

import contextlib
import pathlib
import re
import sys
import tempfile

from selenium.webdriver.common.by import By

from server import serve
from stage import Page, browser, follows_colours

TOKEN = "dev-viewer-token"
NAMES = ["adaptive_dual", "as_fast_as_possible", "even", "feedback", "pid", "slot_rate", "traffic_shaped"]
# The highest and lowest place of a curve, in the units of its picture; nothing if it has no points.
RANGE = """
const [path] = document.querySelectorAll(arguments[0]);
const places = [...(path?.getAttribute("d") ?? "").matchAll(/[ML]([\\d.]+) ([\\d.]+)/g)].map(([, , y]) => Number(y));
return places.length > 1 ? Math.max(...places) - Math.min(...places) : 0;
"""


def configuration(folder):
    text = pathlib.Path("config/pacing.toml").read_text().replace("day_s = 300", "day_s = 30")
    assert "day_s = 30\n" in text
    path = pathlib.Path(folder) / "pacing.toml"
    path.write_text(text)
    return path


def height(page, selector):
    return page.driver.execute_script(RANGE, selector)


def logs_in(page):
    page.wait_until("the log-in", lambda: page.driver.find_element(By.ID, "login").is_displayed())
    for password, then in [("wrong", "the server does not take"), (TOKEN, "live")]:
        field = page.driver.find_element(By.ID, "password")
        field.clear()
        field.send_keys(password)
        page.click("#login button")
        page.wait_for("#state", then)


def shown(page):
    return page.run("return [...document.querySelectorAll('#cards li')].map((card) => card.dataset.id)")


def draws(page):
    page.wait_until("seven campaigns", lambda: shown(page) == NAMES)
    for name in NAMES:
        card = f'li[data-id="{name}"]'
        page.wait_until(f"what {name} has spent", lambda: height(page, f"{card} .spent") > 10)
        page.wait_until(f"money of {name}", lambda: re.match(r"[\d.]*[1-9][\d.]* of \d", page.text(f"{card} .money")))
    # Planned is half a day's height and more above what was spent at its begin; as fast as possible has no plan.
    for name in set(NAMES) - {"as_fast_as_possible"}:
        assert height(page, f'li[data-id="{name}"] .planned') > 40, name
    assert height(page, 'li[data-id="as_fast_as_possible"] .planned') == 0
    page.driver.find_element(By.ID, "prefix").send_keys("a")
    page.wait_until("those that begin with a", lambda: shown(page) == NAMES[:2])
    page.driver.find_element(By.ID, "prefix").clear()
    page.driver.find_element(By.ID, "prefix").send_keys("even")
    page.wait_until("the one whose id is asked for", lambda: shown(page) == ["even"])


def opens_one(page):
    page.click('li[data-id="even"] button')
    page.wait_for("#one h2", "even")
    page.wait_until("its curve", lambda: height(page, "#curve .spent") > 10 and height(page, "#curve .planned") > 40)
    page.wait_for("#figures", "win rate")
    page.wait_for("#reasons", "bid on")
    page.wait_for("#reasons", "the strategy let them pass")
    assert page.run("return document.querySelectorAll('#curve text').length") > 6, "a scale"
    page.driver.refresh()
    page.wait_for("#one h2", "even")


def asks_nobody_else(page, http):
    loaded = page.run("return performance.getEntriesByType('resource').map(({ name }) => name)")
    assert loaded and all(name.startswith(f"http://{http}/") for name in loaded), loaded


def play(binary, pictures=None):
    with contextlib.ExitStack() as gone:
        folder = gone.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-pacing-"))
        server = gone.enter_context(serve(binary, config=str(configuration(folder))))
        driver = browser((1400, 900), "light")
        gone.callback(driver.quit)
        page = Page(driver, f"http://{server.http}/pacing")
        logs_in(page)
        draws(page)
        page.driver.find_element(By.ID, "prefix").clear()
        page.run("document.getElementById('prefix').dispatchEvent(new Event('input'))")
        page.wait_until("all again", lambda: shown(page) == NAMES)
        follows_colours(page, [".name b", ".strategy", ".money", "#state", ".key"], pictures, "campaigns")
        opens_one(page)
        follows_colours(page, ["#one h2", ".plan", "#figures dt", "#figures dd", "figcaption"], pictures, "campaign")
        asks_nobody_else(page, server.http)
        # A link brings its token, and the address does not keep it.
        page = Page(driver, "about:blank")
        driver.get(f"http://{server.http}/pacing#token={TOKEN}")
        page.wait_for("#state", "live")
        assert TOKEN not in driver.current_url, driver.current_url
        page.assert_quiet(but=["401 (Unauthorized)"])


if __name__ == "__main__":
    play(*sys.argv[1:])
