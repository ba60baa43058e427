"""The voting page in headless Chromium, two windows beside each other:  demo.py BINARY [PICTURE]

One window votes, the other sees the tally move. The last credit is spent, and the next vote is refused.
With PICTURE, the page is saved there as a PNG.
"""

import shutil
import sys

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from server import serve

SECONDS_MAX = 20
CANDIDATES = [f"candidate:{number}" for number in range(1, 8)]
NAMES = ["Ada", "Bruno", "Chiara", "Deniz", "Emil", "Farah", "Greta"]


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=900,1000"]:
        options.add_argument(flag)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


class Window:
    """One viewer's window."""

    def __init__(self, driver, http, user):
        driver.switch_to.new_window("window")
        self.driver, self.handle, self.user = driver, driver.current_window_handle, user
        driver.get(f"http://{http}/demo")

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
        self.find(f'li[data-id="{candidate}"] .vote').click()


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

    dave.vote(CANDIDATES[0])
    dave.wait_for("#notice", "Not counted: the account to debit has only 0 available")
    carol.vote(CANDIDATES[2])
    dave.wait_for(tally(CANDIDATES[2]), "3")
    dave.wait_for("#balance", "0")
    if picture:
        dave.find("body")
        driver.save_screenshot(picture)


def play(binary, picture=None):
    driver = browser()
    try:
        with serve(binary) as server:
            check(driver, server.http, picture)
    finally:
        driver.quit()


if __name__ == "__main__":
    play(*sys.argv[1:])
