"""The voting page in headless Chromium, two windows beside each other:  demo.py BINARY [PICTURE]

One window votes, the other sees the tally move. The last credit is spent, and no button can be pressed. A page keeps
its user while another one logs in on a second page of the same browser, and a kept vote is sent only as who pressed it.
With PICTURE, the page is saved there as a PNG.
"""

import shutil
import sys

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from server import serve

SECONDS_MAX = 20
CANDIDATES = [f"candidate:{number}" for number in range(1, 8)]
NAMES = ["Ada", "Bruno", "Chiara", "Deniz", "Emil", "Farah", "Greta"]


def browser(*flags):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=900,1000", *flags]:
        options.add_argument(flag)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


class Window:
    """One viewer's window."""

    def __init__(self, driver, http, user, path="/demo"):
        driver.switch_to.new_window("window")
        self.driver, self.handle, self.user = driver, driver.current_window_handle, user
        driver.get(f"http://{http}{path}")

    def find(self, selector):
        self.driver.switch_to.window(self.handle)
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.find(selector).text

    def wait_for(self, selector, text):
        try:
            WebDriverWait(self.driver, SECONDS_MAX, poll_frequency=0.02).until(lambda _: text in self.text(selector))
        except Exception:
            sys.exit(f"{self.user}: {selector} is {self.text(selector)!r}, not {text!r}; "
                     f"the page has {self.text('body')!r}")

    def log_in(self, password):
        for field, value in [("#user", self.user), ("#password", password)]:
            self.find(field).clear()
            self.find(field).send_keys(value)
        self.find("#login button").click()

    def vote(self, candidate):
        """Presses when the button does not rest from the press before."""
        button = f'li[data-id="{candidate}"] .vote'
        self.wait_until(f"{button} to press", lambda: self.find(button).get_attribute("aria-disabled") is None)
        self.find(button).click()

    def wait_until(self, what, holds):
        try:
            WebDriverWait(self.driver, SECONDS_MAX, poll_frequency=0.02).until(lambda _: holds())
        except TimeoutException:
            sys.exit(f"{self.user}: {what} did not come; the page has {self.text('body')!r}")

    def run(self, script, *arguments):
        self.driver.switch_to.window(self.handle)
        return self.driver.execute_script(script, *arguments)


def tally(candidate):
    return f'li[data-id="{candidate}"] .tally'


def check(driver, http, picture):
    # One browser keeps one log-in, so carol uses another host name of this machine.
    dave, carol = Window(driver, http, "dave"), Window(driver, http.replace("127.0.0.1", "localhost"), "carol")
    carol.log_in("wrong")
    carol.wait_for("#link", "password")
    for window in (dave, carol):
        window.log_in(window.user)
        window.wait_for("#link", "live")
        window.wait_for("#balance", "10")
        shown = [row.get_attribute("data-id") for row in window.driver.find_elements(By.CSS_SELECTOR, "#candidates li")]
        if shown != CANDIDATES:
            sys.exit(f"{window.user} sees {shown}, not {CANDIDATES}")

    for vote in range(1, 11):
        candidate = CANDIDATES[vote % 7]
        dave.vote(candidate)
        dave.wait_for("#balance", str(10 - vote))
        dave.wait_for("#notice", f"Your vote for {NAMES[vote % 7]} counts")
    for number, candidate in enumerate(CANDIDATES):
        votes = str(sum(1 for vote in range(1, 11) if vote % 7 == number))
        for window in (dave, carol):
            window.wait_for(tally(candidate), votes)
    carol.wait_for("#balance", "10")

    dave.wait_for("#wallet", "0 credits left, so you cannot vote now")
    if dave.run("return document.querySelector('.vote:enabled')"):
        sys.exit("dave has no credits left, and can press")
    carol.vote(CANDIDATES[2])
    dave.wait_for(tally(CANDIDATES[2]), "3")
    dave.wait_for("#balance", "0")
    if picture:
        dave.find("body")
        driver.save_screenshot(picture)
    return carol


def keeps_its_user(driver, server, carol):
    """Two pages of one browser, which keeps one log-in. Carol's has a vote that is not sent when dave logs in."""
    host = server.http.replace("127.0.0.1", "localhost")
    keep = "localStorage.setItem('tidegate.demo.token', arguments[0])"
    kept = "return Object.keys(localStorage).filter((key) => key.startsWith('tidegate.demo.vote.')).length"
    dave = Window(driver, host, "dave")
    dave.wait_for("#viewer", "carol")
    dave.find("#logout").click()
    carol.wait_for("#link", "carol was logged out on another page")
    dave.log_in("dave")
    dave.wait_for("#link", "live")
    token = driver.execute_script("return localStorage.getItem('tidegate.demo.token')")
    carol.log_in("carol")
    carol.wait_for("#link", "live")
    dave.wait_for("#link", "carol has logged in on another page of this browser, so dave is logged out here")

    server.kill()
    carol.wait_for("#link", "connecting again")
    carol.vote(CANDIDATES[3])
    carol.wait_for("#notice", "Your vote is kept")
    # A log-in of dave. The page that stores it is not told, as one that was asleep: it must look when it connects.
    driver.execute_script(keep, token)
    server.start()
    server.wait_until_ready()
    carol.wait_for("#link", "dave has logged in on another page of this browser, so carol is logged out here")
    carol.wait_for("#link", "Votes kept, and sent when carol logs in: 1")
    dave.find("body")
    driver.refresh()
    dave.wait_for("#link", "live")
    dave.wait_for("#viewer", "dave")
    dave.wait_for("#balance", "0")
    dave.wait_for(tally(CANDIDATES[3]), "2")
    if driver.execute_script(kept) != 1:
        sys.exit("carol's vote was sent on dave's page, or is lost")
    carol.log_in("carol")
    carol.wait_for("#notice", f"Your vote for {NAMES[3]} counts")
    carol.wait_for("#balance", "8")
    carol.wait_for(tally(CANDIDATES[3]), "3")
    dave.wait_for("#link", "carol has logged in")
    if driver.execute_script(kept) != 0:
        sys.exit("carol's vote is still kept")


def play(binary, picture=None):
    driver = browser()
    try:
        with serve(binary) as server:
            keeps_its_user(driver, server, check(driver, server.http, picture))
    finally:
        driver.quit()


if __name__ == "__main__":
    play(*sys.argv[1:])
