#!/usr/bin/env python3
"""Text messages on their way through three nodes, the middle one of which is killed again and again, to an SMSC.

    client (in) ── link ──▶ router (route) ── link ──▶ outgoing (out) ── SMPP ──▶ smsc.py, as the operator
                                                              trail ◀── receipts ──┘

Each node is a Tidegate with one queue; the links are in client.toml, router.toml and outgoing.toml. The script starts
the nodes and an SMSC, sends messages to the first node, and kills the router with -9 three times meanwhile. It checks
that every message came to the SMSC, none came twice, and those of one recipient came in their order; then it shows the
way of one of them through all nodes, with what the SMSC said of it.

Usage: sms.py [--tidegate target/release/tidegate] [--messages 100000]
"""

import argparse
import asyncio
import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from smsc import Smsc

HERE = Path(__file__).resolve().parent
TOKEN = "dev-service-token"
PORTS = {"client": 8081, "router": 8082, "outgoing": 8083}
QUEUES = {"client": "in", "router": "route", "outgoing": "out"}
SMSC_PORT = 2775
RECIPIENTS = 500
BATCH = 500
# The end of the wait for messages that do not come: longer than the lease of a link.
PATIENCE_S = 30


class Node:
    """One Tidegate."""

    def __init__(self, program, name, data):
        self.name = name
        self.log = open(data / f"{name}.log", "a", encoding="utf-8")
        self.command = [program, "serve", "--config", HERE / f"{name}.toml", "--data", data / name]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        until = time.monotonic() + 30
        while True:
            try:
                self.ask("GET", "/readyz")
                return
            except (OSError, http.client.HTTPException, RuntimeError):
                if time.monotonic() > until or self.process.poll() is not None:
                    sys.exit(f"the {self.name} node does not start; its log is {self.log.name}")
                time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", PORTS[self.name], timeout=60)

    def ask(self, method, path, body=None, connection=None):
        connection = connection or self.connect()
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{self.name}: {method} {path}: {answer.status} {text[:300]}")
        return json.loads(text) if text[:1] == b"{" else None


def send(client, messages):
    """Sends texts; those of one recipient are to arrive in their order."""
    connection, keys = client.connect(), []
    for first in range(0, messages, BATCH):
        texts = [
            {"body": str(number), "attributes": {"to": to}, "ordering_key": to, "id": f"text-{number}"}
            for number in range(first, min(first + BATCH, messages))
            for to in [f"+49170{number % RECIPIENTS:07}"]
        ]
        sent = client.ask("POST", "/v1/queues/in/messages", {"messages": texts}, connection)
        keys += [message["key"] for message in sent["messages"]]
    return keys


class Line:
    """The operator: an SMSC on a thread of its own, which checks what comes."""

    def __init__(self, messages):
        self.messages, self.seen, self.last = messages, set(), {}
        self.wrong, self.heard, self.done = None, time.monotonic(), threading.Event()
        threading.Thread(target=lambda: asyncio.run(Smsc(self.take).serve(SMSC_PORT)), daemon=True).start()

    def take(self, submission):
        number, recipient = int(submission.text), submission.destination
        if number in self.seen:
            self.wrong = f"text {number} came twice"
        if self.last.get(recipient, -1) > number:
            self.wrong = f"text {number} came behind {self.last[recipient]}"
        self.seen.add(number)
        self.last[recipient], self.heard = number, time.monotonic()
        if len(self.seen) == self.messages:
            self.done.set()

    def check(self):
        """Ends the script if something is wrong."""
        if self.wrong:
            sys.exit(self.wrong)
        if time.monotonic() - self.heard > PATIENCE_S:
            sys.exit(f"{self.messages - len(self.seen)} of {self.messages} texts did not come")


def trail(nodes, name, key):
    """What happened to a message on one node: its key at the first node is its id at all others."""
    path = f"/v1/messages/{key}" if name == "client" else f"/v1/queues/{QUEUES[name]}/ids/{key}"
    return nodes[name].ask("GET", path)["trail"]


def wait_for_receipt(nodes, key):
    """The SMSC has said what became of a message, and its trail has it."""
    until = time.monotonic() + PATIENCE_S
    while all(step["step"] != "noted" for step in trail(nodes, "outgoing", key)):
        if time.monotonic() > until:
            sys.exit("the receipt of a text did not come")
        time.sleep(0.05)


def show(nodes, key):
    """The way of one message."""
    print(f"\nthe way of {key}")
    for name, queue in QUEUES.items():
        for step in trail(nodes, name, key):
            at = time.strftime("%H:%M:%S", time.gmtime(step["time_ms"] / 1000)) + f".{step['time_ms'] % 1000:03}"
            to = " ".join(step[field] for field in ("to", "reference") if field in step)
            detail = step.get("consumer") or step.get("reason") or step.get("text") or to
            print(f"  {at}  {name:8}  {queue:5}  {step['step']:12}  {detail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tidegate", default="target/release/tidegate")
    parser.add_argument("--messages", type=int, default=100_000)
    options = parser.parse_args()
    data = Path(tempfile.mkdtemp(prefix="tidegate-sms-"))
    nodes = {}
    try:
        for name in ("outgoing", "router", "client"):
            nodes[name] = Node(options.tidegate, name, data)
        run(nodes, options.messages)
    finally:
        for node in nodes.values():
            node.stop()
    shutil.rmtree(data)


def run(nodes, messages):
    """Sends, kills and waits."""
    line = Line(messages)
    began, kills = time.monotonic(), 0
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send, nodes["client"], messages)
        while not line.done.wait(1.0):
            line.check()
            if sending.done():
                # It says why, if it has failed.
                sending.result()
            if kills < 3:
                kills += 1
                nodes["router"].kill()
                nodes["router"].start()
        keys = sending.result()
    line.check()
    took = time.monotonic() - began
    print(f"{messages} texts passed three nodes and came to the SMSC once and in order in {took:.1f} s")
    print(f"the router was killed {kills} times meanwhile")
    wait_for_receipt(nodes, keys[0])
    show(nodes, keys[0])


if __name__ == "__main__":
    main()
