"""The voter's page on a phone and the stage on a big screen, in headless Chromium:  stage.py BINARY [PICTURES]

The phone opens the page over plain HTTP by a host name, where a browser withholds what needs a secure context. A vote
is counted once although its answer is lost and the server is killed; one that is pressed while the server is away is
counted when it is back. When the countdown ends, no vote can be pressed. Both pages follow light and dark, and neither
writes an error to its console. With PICTURES, a folder, screenshots are saved there.
"""

import base64
import contextlib
import datetime
import pathlib
import shutil
import struct
import sys
import tempfile
import zlib

import zxingcpp
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from server import serve

SECONDS_MAX = 60
HOST = "vote.test"
PHONE, STAGE = (390, 844), (1920, 1080)
ADA, BRUNO = ('li[data-id="candidate:%d"]' % number for number in (1, 2))
# What a page receives does not reach it while it is deaf, as on a network that has just gone.
DEAF = """
const Real = WebSocket;
window.WebSocket = class extends Real {
  set onmessage(hear) { super.onmessage = (event) => window.isDeaf || hear(event); }
};
"""
# Dave's last credit, as another client of his spends it.
SPEND = """
const { token } = JSON.parse(localStorage.getItem("tidegate.demo.token"));
const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
const vote = { id: "elsewhere", debit: "wallet:dave", credit: "candidate:1", amount: 1 };
fetch("/v1/transfers", { method: "POST", headers, body: JSON.stringify(vote) });
"""


def browser(size, colours):
    """A browser of its own, with its own log-in, as each phone is."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars",
                 f"--host-resolver-rules=MAP {HOST} 127.0.0.1"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": DEAF})
    paint(driver, colours)
    return driver


def paint(driver, colours):
    features = [{"name": "prefers-color-scheme", "value": colours}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


class Page:
    """A page in its browser."""

    def __init__(self, driver, url):
        self.driver = driver
        driver.get(url)

    def run(self, script):
        return self.driver.execute_script(script)

    def wait_until(self, what, holds):
        try:
            WebDriverWait(self.driver, SECONDS_MAX, poll_frequency=0.02).until(lambda _: holds())
        except Exception as error:
            sys.exit(f"{what} did not come: {error}\nthe page has {self.text('body')!r}")

    def text(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector).text

    def wait_for(self, selector, text):
        self.wait_until(f"{selector} with {text!r}", lambda: text in self.text(selector))

    def vote(self, candidate):
        """Presses when the button does not rest from the press before."""
        button = f"{candidate} .vote"
        rests = f"return document.querySelector({button!r}).hasAttribute('aria-disabled')"
        self.wait_until(f"{button} to press", lambda: not self.run(rests))
        self.click(button)

    def click(self, selector):
        # Not behind the lower edge, where the notice stands.
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{ block: 'nearest', behavior: 'instant' }})")
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def log_in(self, user, password):
        self.wait_until("the log-in", lambda: self.driver.find_element(By.ID, "login").is_displayed())
        for field, value in [("user", user), ("password", password)]:
            element = self.driver.find_element(By.ID, field)
            element.clear()
            element.send_keys(value)
        element.send_keys(Keys.ENTER)

    def assert_quiet(self, but=()):
        """Nothing on the console, but failed requests while `but` is so."""
        said = [line for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
        said = [line for line in said if not any(known in line["message"] for known in but)]
        if said:
            sys.exit(f"the console has {said}")

    def contrast(self, selector):
        """Between the text of an element and what is behind it, as WCAG 2 computes it."""
        text, behind = self.run("""
            let element = document.querySelector(arguments[0]), text = getComputedStyle(element).color, behind;
            do {
              behind = getComputedStyle(element).backgroundColor;
              element = element.parentElement;
            } while (element && behind === "rgba(0, 0, 0, 0)");
            const numbers = (colour) => colour.match(/[0-9.]+/g).map(Number);
            return [numbers(text), numbers(behind)];
        """.replace("arguments[0]", repr(selector)))

        def luminance(colour):
            parts = [part / 255 for part in colour[:3]]
            parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

        lighter, darker = sorted((luminance(text), luminance(behind)), reverse=True)
        return (lighter + 0.05) / (darker + 0.05)

    def save(self, folder, name):
        if folder:
            png = base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])
            pathlib.Path(folder, name).write_bytes(png)


def png(red, green, blue, side=48):
    """A picture of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes((red, green, blue)) * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def configuration(folder):
    """config/dev.toml with pictures and a countdown. Without anonymous clients, pages of any own host may connect."""
    text = pathlib.Path("config/dev.toml").read_text()
    before, after = text.split("[listener.websocket]\nanonymous = true")
    text = f"{before}[listener.websocket]\nanonymous = false{after}"
    ends_at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=50)
    text = text.replace("[demo]\n", f'[demo]\nends_at = "{ends_at:%Y-%m-%dT%H:%M:%SZ}"\n', 1)
    for number, name in enumerate(["Ada", "Bruno", "Chiara", "Deniz", "Emil", "Farah", "Greta"]):
        picture = pathlib.Path(folder, f"{name}.png")
        picture.write_bytes(png(40 + 30 * number, 120, 220 - 30 * number))
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\npicture_file = "{picture}"\n', 1)
    path = pathlib.Path(folder, "demo.toml")
    path.write_text(text)
    return path


def votes(phone, stage):
    """A vote on the phone moves the stage."""
    if phone.run("return isSecureContext"):
        sys.exit("the phone's page is a secure context, so it proves nothing")
    phone.log_in("dave", "wrong")
    phone.wait_for("#link", "password")
    phone.assert_quiet(but=["401 (Unauthorized)"])
    phone.log_in("dave", "dave")
    stage.log_in("carol", "carol")
    for page in (phone, stage):
        page.wait_for("#link", "live")
        page.wait_for("#countdown", "left")
    if stage.run("return getComputedStyle(document.activeElement).outlineStyle") != "none":
        sys.exit("the title of the stage has an outline")
    stage.wait_for("#leader", "No votes yet")
    phone.vote(ADA)
    phone.wait_for("#notice", "Your vote for Ada counts")
    stage.wait_for("aside", "1 vote\n")
    phone.vote(BRUNO)
    phone.wait_for("#notice", "Your vote for Bruno counts")
    stage.wait_for("#leader", "Ada and Bruno are level")
    phone.vote(ADA)
    stage.wait_for("#leader", "Ada leads")
    stage.wait_for(f"{ADA} .percent", "66.7 %")
    stage.wait_for("#total", "3")
    moved = "return [...document.querySelectorAll('#timeline rect')].some((bar) => bar.getAttribute('height') > 0)"
    stage.wait_until("a bar of the timeline", lambda: stage.run(moved))
    agree(phone, stage)


def agree(phone, stage):
    tallies = "return [...document.querySelectorAll('li')].map((row) => row.querySelector('.tally').textContent).join()"
    stage.wait_until("the same tallies", lambda: stage.run(tallies) == phone.run(tallies))


def code_is_read(stage, url):
    """A decoder that is not ours reads the code as Chromium draws it."""
    stage.wait_until("the code", lambda: stage.run("return qr.complete && qr.naturalWidth > 0"))
    side, modules = stage.run("""
        const side = qr.naturalWidth * 8, canvas = Object.assign(document.createElement("canvas"),
          { width: side, height: side }), context = canvas.getContext("2d");
        context.drawImage(qr, 0, 0, side, side);
        return [side, [...context.getImageData(0, 0, side, side).data.filter((_, at) => at % 4 === 0)]];
    """)
    found = zxingcpp.read_barcodes(memoryview(bytes(modules)).cast("B", (side, side)))
    read = [code.text for code in found]
    if read != [url]:
        sys.exit(f"the QR code says {read}, not {url!r}")


def is_usable(phone):
    """The notice is at the lower edge, buttons have names and room for a thumb, and nothing is wider than the phone."""
    width, height = PHONE
    bottom, across, small, named = phone.run("""
        const buttons = [...document.querySelectorAll(".vote")];
        return [thumb.getBoundingClientRect().bottom, document.documentElement.scrollWidth,
                buttons.filter((button) => button.getBoundingClientRect().height < 44).length,
                buttons.map((button) => button.getAttribute("aria-label"))];
    """)
    if abs(bottom - height) > 1 or across > width or small or named[0] != "Vote for Ada":
        sys.exit(f"lower edge {bottom}, width {across}, {small} small buttons, names {named}")
    pictures = "return [...document.querySelectorAll('.picture')].filter(({ naturalWidth }) => naturalWidth).length"
    phone.wait_until("seven pictures", lambda: phone.run(pictures) == 7)


def fits(stage):
    """Seven candidates are seen without scrolling."""
    extent = stage.run("return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    if extent != list(STAGE):
        sys.exit(f"the stage is {extent}, not {STAGE}")


def outlives(server, phone, stage):
    """The answer to one vote is lost with the server, another is pressed while it is away: both count, once."""
    away = ["ERR_CONNECTION", "WebSocket connection", "ERR_EMPTY_RESPONSE", "503 (Service Unavailable)"]
    phone.run("window.isDeaf = true")
    phone.vote(ADA)
    stage.wait_for(f"{ADA} .tally", "3")
    server.kill()
    for page in (phone, stage):
        page.wait_for("#link", "connecting again")
    phone.vote(BRUNO)
    phone.wait_for("#notice", "sent when the connection is back")
    phone.run("window.isDeaf = false")
    server.start()
    server.wait_until_ready()
    for page in (phone, stage):
        page.wait_for("#link", "live")
    settled = "return Object.keys(localStorage).every((key) => !key.startsWith('tidegate.demo.vote.'))"
    phone.wait_until("both outcomes", lambda: phone.run(settled))
    # Three before, and these two.
    phone.wait_for("#balance", "5")
    stage.wait_for(f"{ADA} .tally", "3")
    stage.wait_for(f"{BRUNO} .tally", "2")
    agree(phone, stage)
    for page in (phone, stage):
        page.assert_quiet(but=away)


def ends(phone, stage):
    """The pages' clocks are at the end: no vote can be pressed. A page that is opened again goes by the server's clock,
    whatever its own says: the vote goes on.
    """
    for page in (phone, stage):
        page.run("const now = Date.now; Date.now = () => now() + 3600e3")
        page.wait_for("#countdown", "The vote is over.")
    phone.wait_until("no button", lambda: phone.run("return !document.querySelector('.vote:enabled')"))
    # The button of somebody who enables it by hand sends nothing either: the next vote is the one after five credits.
    phone.run(f"const vote = document.querySelector('{ADA} .vote'); vote.disabled = false; vote.click()")
    for page in (phone, stage):
        page.driver.refresh()
        page.wait_for("#link", "live")
        page.wait_for("#countdown", "left")
    phone.wait_for("#balance", "5")
    agree(phone, stage)


def stays_in_and_is_refused(phone, stage):
    """The page is gone before its answer came: opened again, it asks for no password, and the vote has counted once.
    The last credit is spent elsewhere, which the page does not hear: the next vote is refused.
    """
    phone.run("window.isDeaf = true")
    phone.vote(ADA)
    stage.wait_for(f"{ADA} .tally", "4")
    phone.driver.refresh()
    phone.wait_for("#notice", "Your vote for Ada counts")
    phone.wait_for("#balance", "4")
    for left in range(3, 0, -1):
        phone.vote(ADA)
        phone.wait_for("#balance", str(left))
        phone.wait_for("#notice", "counts")
    phone.wait_for("#wallet", "1 credit left")
    phone.run("window.isDeaf = true")
    phone.run(SPEND)
    stage.wait_for(f"{ADA} .tally", "8")
    phone.vote(BRUNO)
    phone.driver.refresh()
    phone.wait_for("#notice", "Your vote for Bruno was not counted: you have no credits left")
    phone.wait_for("#wallet", "0 credits left, so you cannot vote now")
    phone.wait_until("no button", lambda: phone.run("return !document.querySelector('.vote:enabled')"))
    agree(phone, stage)
    phone.click("#logout")
    phone.wait_until("the log-in", lambda: phone.driver.find_element(By.ID, "login").is_displayed())


def follows_colours(page, selectors, folder, name):
    grounds = set()
    for colours in ("dark", "light"):
        paint(page.driver, colours)
        grounds.add(page.run("return getComputedStyle(document.body).backgroundColor"))
        for selector in selectors:
            if (ratio := page.contrast(selector)) < 4.5:
                sys.exit(f"{selector} in {colours}: contrast {ratio:.2f}")
        page.save(folder, f"{name}-{colours}.png")
    if len(grounds) != 2:
        sys.exit(f"dark and light have one ground, {grounds}")


def play(binary, pictures=None):
    with contextlib.ExitStack() as gone:
        folder = gone.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-stage-"))
        server = gone.enter_context(serve(binary, config=str(configuration(folder))))
        phone = browser(PHONE, "light")
        gone.callback(phone.quit)
        stage = browser(STAGE, "dark")
        gone.callback(stage.quit)
        origin = f"http://{HOST}:{server.http.split(':')[1]}"
        phone, stage = Page(phone, f"{origin}/demo"), Page(stage, f"{origin}/demo/stage")
        votes(phone, stage)
        code_is_read(stage, f"{origin}/demo")
        is_usable(phone)
        fits(stage)
        follows_colours(phone, ["#notice", "#wallet", ".name", ".vote", "#link", ".tally"], pictures, "voter")
        follows_colours(stage, ["#leader", "#url", ".percent", "#link", ".tally"], pictures, "stage")
        for page in (phone, stage):
            page.assert_quiet()
        outlives(server, phone, stage)
        ends(phone, stage)
        stays_in_and_is_refused(phone, stage)
        for page in (phone, stage):
            page.assert_quiet()


if __name__ == "__main__":
    play(*sys.argv[1:])
