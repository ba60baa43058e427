#!/usr/bin/env python3
"""Paces seven campaigns through a day that takes five minutes, and draws what each has spent.

    examples/pacing/pacing.py --tidegate target/release/tidegate

Each campaign has 5.00 and a strategy of its own. The script is the exchange: it asks for bids as visitors come, holds
auctions against others who bid, tells the server which bids have won, and at the end compares what it has paid with the
ledger. It needs nothing but Python. `--seconds 30 --svg day.svg` makes the day shorter, and draws it into a file. The
server is one of its own, or with `--address` one that runs with config/pacing.toml and `pacing.demo.day_s = 0`: the
market of that configuration would spend the same money.
"""

import argparse
import contextlib
import http.client
import json
import math
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Their parameters are for whole days; this one has minutes.
STRATEGIES = {
    "even": {"window_s": 3},
    "traffic_shaped": {"window_s": 3},
    "feedback": {"interval_s": 1},
    "slot_rate": {"slot_s": 1},
    "pid": {"proportional_permille": 20_000, "integral_permille": 100_000},
    "adaptive_dual": {"interval_s": 1},
    "as_fast_as_possible": {},
}
FUNDS = 5_000_000
PRICE_MAX = 2_000
ROUND_S = 0.1
# Requests for each campaign in a day on which all hours are like the busiest one.
REQUESTS = 40_000
LANES = " ▁▂▃▄▅▆▇█"


class Server:
    """Its HTTP door."""

    def __init__(self, address, token):
        self.connection = http.client.HTTPConnection(address, timeout=10)
        self.headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def ask(self, method, path, body=None):
        try:
            self.connection.request(method, path, json.dumps(body) if body is not None else None, self.headers)
            answer = self.connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            at = f"{self.connection.host}:{self.connection.port}"
            sys.exit(f"{method} {path}: {at} does not answer: {error}; is it the HTTP door of a server that runs?")
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status} {text}")
        return json.loads(text)


@contextlib.contextmanager
def served(binary):
    """A server of its own, with config/pacing.toml; its address."""
    free = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    http_address, binary_address = (f"127.0.0.1:{of.getsockname()[1]}" for of in free)
    for of in free:
        of.close()
    shipped = Path(__file__).resolve().parents[2] / "config" / "pacing.toml"
    with tempfile.TemporaryDirectory() as data:
        # This script is the market.
        config = Path(data) / "pacing.toml"
        config.write_text(shipped.read_text().replace("day_s = 300", "day_s = 0"))
        doors = ["--http", http_address, "--binary", binary_address]
        command = [binary, "serve", "--config", config, "--data", Path(data) / "data", *doors]
        try:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError as error:
            sys.exit(f"{binary} cannot be started: {error}; build it with `make release`")
        try:
            until = time.monotonic() + 30
            while not answers(http_address):
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit(f"{binary} does not serve {config}")
                time.sleep(0.05)
            yield http_address
        finally:
            process.terminate()
            process.wait()


def answers(address):
    """Whether a server serves there."""
    try:
        connection = http.client.HTTPConnection(address, timeout=1)
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False


def visitors(share_of_day):
    """How many visitors come now, as a share of the most: few at night, most in the evening."""
    return 0.15 + 0.85 * max(0.0, math.sin(math.pi * (share_of_day - 0.2) / 0.8)) ** 2


def auction(market, price):
    """What a bid pays if it wins: the highest bid of the others."""
    other = int(market.lognormvariate(math.log(700), 0.6))
    return other if other < price else None


def draw(svg, curves, planned):
    """The curves as an SVG."""
    width, height, colors = 900, 420, ["#1b6ca8", "#d1495b", "#66a182", "#edae49", "#7768ae", "#00798c", "#888888"]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">']

    def polyline(points, color, dash=""):
        places = " ".join(f"{60 + 620 * x:.1f},{380 - 340 * y:.1f}" for x, y in points)
        lines.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" {dash} points="{places}"/>')

    polyline(planned, "#000000", 'stroke-dasharray="4 4"')
    lines.append('<text x="700" y="40" font-size="14">- - evenly</text>')
    for number, (name, points) in enumerate(curves.items()):
        polyline(points, colors[number])
        lines.append(f'<text x="700" y="{64 + 24 * number}" font-size="14" fill="{colors[number]}">{name}</text>')
    lines.append('<text x="60" y="405" font-size="12">begin of the day</text></svg>')
    with open(svg, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--address", default="127.0.0.1:8080", help="of the HTTP door")
    arguments.add_argument("--token", default="dev-exchange-token")
    arguments.add_argument("--seconds", type=float, default=300.0, help="how long the day is")
    arguments.add_argument("--svg", help="a file to draw the curves into")
    arguments.add_argument("--tidegate", help="a binary: a server is started for this day, and ended behind it")
    chosen = arguments.parse_args()
    if chosen.seconds < 1:
        arguments.error("--seconds: expected 1 or more")
    if chosen.svg and not Path(chosen.svg).absolute().parent.is_dir():
        arguments.error(f"--svg {chosen.svg}: there is no such folder")
    if not chosen.tidegate:
        sys.exit(run_day(chosen, chosen.address))
    with served(chosen.tidegate) as address:
        wrong = run_day(chosen, address)
    sys.exit(wrong)


def run_day(chosen, address):
    """Runs the day; whether something is wrong behind it."""
    server, market = Server(address, chosen.token), random.Random(1)
    begins = int(time.time() * 1000)
    ends = begins + int(chosen.seconds * 1000)
    numbers, had, before = {}, {}, {}
    for name in STRATEGIES:
        had[name] = server.ask("GET", f"/v1/accounts/campaign:{name}")["available"]
        # Another day may have been there: its spending is a part of the campaign's budget.
        before[name] = server.ask("GET", f"/v1/accounts/spend:{name}")["balance"]
        budget = min(FUNDS, had[name])
        if budget == 0:
            sys.exit(f"campaign:{name} has no money left; begin with an empty data directory")
        plan = {"account": f"campaign:{name}", "spend": f"spend:{name}", "price_micros": PRICE_MAX,
                "budget_micros": before[name] + budget, "strategy": {"name": name, "parameters": STRATEGIES[name]},
                "flights": [{"starts_ms": begins, "ends_ms": ends}]}
        numbers[name] = server.ask("PUT", f"/v1/campaigns/{name}", plan)["number"]
    paid, curves, request = dict.fromkeys(STRATEGIES, 0), {name: [] for name in STRATEGIES}, 0
    by_number = {number: name for name, number in numbers.items()}
    shown = time.monotonic()
    while (now := time.time() * 1000) < ends:
        turn = time.monotonic()
        share = (now - begins) / (ends - begins)
        asked = []
        for number in numbers.values():
            for _ in range(max(1, round(REQUESTS * ROUND_S / chosen.seconds * visitors(share)))):
                request += 1
                asked.append({"id": request, "campaign": number, "user": market.randrange(1, 1 << 32)})
        won = []
        for first in range(0, len(asked), 256):
            requests = asked[first:first + 256]
            bids = server.ask("POST", "/v1/bids", {"requests": requests})["bids"]
            for of, bid in zip(requests, bids):
                price = auction(market, bid["price_micros"]) if "token" in bid else None
                if price is not None:
                    won.append((by_number[of["campaign"]], {"token": bid["token"], "price_micros": price}))
        for first in range(0, len(won), 256):
            wins = won[first:first + 256]
            outcomes = server.ask("POST", "/v1/wins", {"wins": [win for _, win in wins]})["outcomes"]
            for (name, win), outcome in zip(wins, outcomes):
                paid[name] += win["price_micros"] if outcome == "taken" else 0
        for name in STRATEGIES:
            curves[name].append((share, paid[name] / FUNDS))
        if turn - shown > 1:
            shown = turn
            bars = "  ".join(f"{name[:14]} {LANES[round(8 * paid[name] / FUNDS)]} {100 * paid[name] // FUNDS:3d} %"
                             for name in STRATEGIES)
            print(f"{100 * share:3.0f} % of the day   {bars}", flush=True)
        time.sleep(max(0.0, ROUND_S - (time.monotonic() - turn)))
    print("\nthe day is over; the last bids are settled\n")
    deadline = time.monotonic() + 30
    wrong = 0
    print(f"{'strategy':20} {'spent':>9} {'of it':>7}   the ledger agrees")
    for name in STRATEGIES:
        while (account := server.ask("GET", f"/v1/accounts/campaign:{name}"))["held"] and time.monotonic() < deadline:
            time.sleep(0.2)
        spent = server.ask("GET", f"/v1/accounts/spend:{name}")["balance"] - before[name]
        agrees = spent == paid[name] and account["held"] == 0 and account["balance"] + spent == had[name]
        wrong += not agrees
        print(f"{name:20} {spent / 1e6:9.6f} {100 * spent / FUNDS:6.1f} %   {'yes' if agrees else f'NO: {account}'}")
    if chosen.svg:
        draw(chosen.svg, curves, [(0, 0), (1, 1)])
        print(f"\nthe curves are in {chosen.svg}")
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
