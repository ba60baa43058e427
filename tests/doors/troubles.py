"""What the voter's page does when something is not as it should be, in headless Chromium:  troubles.py BINARY

Accounts that no topic can name keep nobody out. Who cannot vote is told so, once; who cannot connect is told why, in
words for a voter. A double click is one vote. A page follows the vote that another page of its browser has sent.
"""

import contextlib
import json
import pathlib
import sys
import tempfile

from demo import CANDIDATES, NAMES, Window, browser, tally
from server import serve

HOST = "vote.test"
SERVICE = "dev-service-token"
# As production has them: no hint of the passwords, no names. A user of role service, whose password is dave's.
OPERATOR = """
[[user]]
name = "operator"
password_hash = "{hash}"
role = "service"
grants = ["read:*"]
"""
TYPO = """
[[demo.candidate]]
account = "candidate:8"
name = "Hanna"

[[demo.candidate]]
account = "source:shop"
name = "The shop"
"""
VOTES = "return Object.keys(localStorage).filter((key) => key.startsWith('tidegate.demo.vote.'))"


def production(folder):
    """config/dev.toml with an operator, and without candidates and the hint of the log-in."""
    text = pathlib.Path("config/dev.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("login_hint")]
    text = "\n".join(lines)
    before, candidates = text.split("[[demo.candidate]]", 1)
    after = candidates[candidates.index("# What one viewer may use up"):]
    hashes = [line.split('"')[1] for line in lines if line.startswith("password_hash")]
    return written(folder, "production.toml", before + after + OPERATOR.format(hash=hashes[0]))


def mistyped(folder):
    """config/dev.toml with two candidates more, of which neither is a collector."""
    return written(folder, "mistyped.toml", pathlib.Path("config/dev.toml").read_text() + TYPO)


def written(folder, name, text):
    path = pathlib.Path(folder, name)
    path.write_text(text)
    return str(path)


def open_odd_accounts(server):
    for odd in ("candidate:x+y", "candidate:x#"):
        account = json.dumps({"id": odd, "asset": "credit", "kind": "collector"}).encode()
        status, body = server.request("/v1/accounts", account, SERVICE)
        if status not in (200, 201):
            sys.exit(f"{odd} was not opened: {status} {body}")


def shows(window, candidates):
    rows = window.run("return [...document.querySelectorAll('#candidates li')].map((row) => row.dataset.id)")
    if rows != candidates:
        sys.exit(f"{window.user} sees {rows}, not {candidates}")


def odd_accounts(driver, server):
    open_odd_accounts(server)
    for path in ("/demo", "/demo/stage"):
        page = Window(driver, server.http, "dave", path)
        if path == "/demo":
            page.log_in("dave")
        page.wait_for("#link", "live")
        shows(page, CANDIDATES)


def no_hint(driver, http):
    page = Window(driver, http.replace("127.0.0.1", "localhost"), "carol")
    page.wait_for("#login", "Log in to vote")
    if "carol" in page.text("body"):
        sys.exit(f"a server that is none of development says {page.text('body')!r}")


def cannot_vote(driver, http):
    """A user of role service is told so, and the page does not ask again."""
    page = Window(driver, http.replace("127.0.0.1", "localhost"), "operator")
    page.log_in("dave")
    page.wait_for("#link", "operator cannot vote here. Log in as somebody who can.")
    page.run("window.fetch = () => { window.hasAsked = true; return Promise.reject(new TypeError('no')); }")
    page.run("dispatchEvent(new Event('online'))")
    if page.run("return window.hasAsked || localStorage.getItem('tidegate.demo.token')"):
        sys.exit("a page that cannot vote connects again")
    for path in ("/demo", "/demo/stage"):
        page = Window(driver, http.replace("127.0.0.1", "localhost"), "operator", path)
        page.wait_for("#login", "Log in")


def no_websocket(driver, http):
    """With anonymous clients, pages of a host name get no WebSocket."""
    page = Window(driver, f"{HOST}:{http.split(':')[1]}", "dave")
    page.log_in("dave")
    page.wait_for("#link", "connecting again by itself: the server answers, but takes no live connections from here")


def double_click(driver, server):
    page = Window(driver, server.http, "dave")
    page.wait_for("#balance", "10")
    press = f"const vote = document.querySelector('li[data-id=\"{CANDIDATES[0]}\"] .vote');"
    page.run(f"{press} vote.click(); setTimeout(() => {{ vote.click(); window.isDone = true; }}, 250)")
    page.wait_until("the second click", lambda: page.run("return window.isDone"))
    page.vote(CANDIDATES[1])
    page.wait_for("#notice", "Your vote for Candidate 2 counts")
    figures = json.loads(server.request(f"/v1/accounts/{CANDIDATES[0]}", token=SERVICE)[1])
    if figures["balance"] != 1:
        sys.exit(f"a double click made {figures['balance']} votes")
    page.vote(CANDIDATES[0])
    page.wait_for(tally(CANDIDATES[0]), "2")


def two_pages(driver, server):
    """Of two pages of one browser, one presses, and the other sends."""
    first, second = (Window(driver, server.http, "dave") for _ in range(2))
    for page in (first, second):
        page.wait_for("#link", "live")
    server.kill()
    first.wait_for("#link", "connecting again by itself: the server cannot be reached")
    first.vote(CANDIDATES[1])
    first.wait_for("#notice", "Your vote is kept")
    first.run("window.realFetch = fetch; window.fetch = () => Promise.reject(new TypeError('Failed to fetch'))")
    server.start()
    server.wait_until_ready()
    second.wait_for("#link", "live")
    first.wait_for("#notice", f"Your vote for {NAMES[1]} counts")
    first.run("window.fetch = window.realFetch")
    first.wait_for("#link", "live")

    # A page that was asleep was not told.
    server.kill()
    first.wait_for("#link", "connecting again")
    first.vote(CANDIDATES[2])
    first.wait_for("#notice", "Your vote is kept")
    for key in second.run(VOTES):
        second.run("localStorage.removeItem(arguments[0])", key)
    server.start()
    server.wait_until_ready()
    first.wait_for("#notice", f"Another page of this browser has sent your vote for {NAMES[2]}")


def is_warned(server):
    """Each start names the candidates that nobody will see, and no others."""
    said = [line for line in server.said().splitlines() if "so it is not shown" in line]
    if not all(any(word in line for line in said) for word in ("candidate:8", "source:shop")) or len(said) != 2:
        sys.exit(f"the server said {said}, and not which two candidates are not shown")


def play(binary):
    driver = browser(f"--host-resolver-rules=MAP {HOST} 127.0.0.1")
    with contextlib.ExitStack() as gone:
        gone.callback(driver.quit)
        folder = gone.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-troubles-"))
        with serve(binary, config=production(folder)) as server:
            no_hint(driver, server.http)
            cannot_vote(driver, server.http)
            odd_accounts(driver, server)
            no_websocket(driver, server.http)
            double_click(driver, server)
        with serve(binary, config=mistyped(folder)) as server:
            is_warned(server)
            odd_accounts(driver, server)
            two_pages(driver, server)


if __name__ == "__main__":
    play(*sys.argv[1:])
