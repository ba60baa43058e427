#!/usr/bin/env python3
"""Text messages on their way through three nodes, the middle one of which is killed again and again.

    client (in) ── link ──▶ router (route) ── link ──▶ outgoing (out) ──▶ this script, as the operator's line

Each node is a Tidegate with one queue; the links are in client.toml and router.toml. The script starts the nodes, sends
messages to the first, kills the router with -9 three times meanwhile, and delivers what comes out at the end. It checks
that every message came, none came twice, and those of one recipient came in their order; then it shows the way of one
of them.

Usage: sms.py [--tidegate target/release/tidegate] [--messages 100000]
"""

import argparse
import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOKEN = "dev-service-token"
PORTS = {"client": 8081, "router": 8082, "outgoing": 8083}
QUEUES = {"client": "in", "router": "route", "outgoing": "out"}
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
            {"body": str(number), "ordering_key": f"+49170{number % RECIPIENTS:07}", "id": f"text-{number}"}
            for number in range(first, min(first + BATCH, messages))
        ]
        sent = client.ask("POST", "/v1/queues/in/messages", {"messages": texts}, connection)
        keys += [message["key"] for message in sent["messages"]]
    return keys


def deliver(outgoing, messages):
    """Receives what comes out and acknowledges it, until all are there."""
    connection, seen, last, heard = outgoing.connect(), set(), {}, time.monotonic()
    while len(seen) < messages:
        wanted = {"max": 1000, "wait_ms": 1000}
        received = outgoing.ask("POST", "/v1/queues/out/receive", wanted, connection)["messages"]
        for message in received:
            number, recipient = int(message["body"]), message["ordering_key"]
            if number in seen:
                sys.exit(f"text {number} came twice")
            if last.get(recipient, -1) > number:
                sys.exit(f"text {number} for {recipient} came behind {last[recipient]}")
            seen.add(number)
            last[recipient] = number
        if received:
            heard = time.monotonic()
            leases = {"leases": [message["lease"] for message in received]}
            outgoing.ask("POST", "/v1/queues/out/acknowledge", leases, connection)
        elif time.monotonic() - heard > PATIENCE_S:
            sys.exit(f"{messages - len(seen)} of {messages} texts did not come")


def show(nodes, key):
    """The way of one message: its key at the first node is its id at all others."""
    print(f"\nthe way of {key}")
    for name, queue in QUEUES.items():
        path = f"/v1/messages/{key}" if name == "client" else f"/v1/queues/{queue}/ids/{key}"
        found = nodes[name].ask("GET", path)
        for step in found["trail"]:
            at = time.strftime("%H:%M:%S", time.gmtime(step["time_ms"] / 1000)) + f".{step['time_ms'] % 1000:03}"
            detail = step.get("consumer") or step.get("reason") or ""
            print(f"  {at}  {name:8}  {queue:5}  {step['step']:12}  {detail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tidegate", default="target/release/tidegate")
    parser.add_argument("--messages", type=int, default=100_000)
    options = parser.parse_args()
    data = Path(tempfile.mkdtemp(prefix="tidegate-sms-"))
    nodes = {name: Node(options.tidegate, name, data) for name in ("outgoing", "router", "client")}
    began, kills, done = time.monotonic(), 0, threading.Event()
    keys = []
    sender = threading.Thread(target=lambda: keys.extend(send(nodes["client"], options.messages)))
    receiver = threading.Thread(target=lambda: (deliver(nodes["outgoing"], options.messages), done.set()))
    sender.start()
    receiver.start()
    while not done.wait(1.0) and receiver.is_alive():
        if kills < 3:
            kills += 1
            nodes["router"].kill()
            nodes["router"].start()
    receiver.join()
    sender.join()
    if not done.is_set():
        sys.exit(1)
    took = time.monotonic() - began
    print(f"{options.messages} texts passed three nodes once and in order in {took:.1f} s")
    print(f"the router was killed {kills} times meanwhile")
    show(nodes, keys[0])
    for node in nodes.values():
        node.stop()
    shutil.rmtree(data)


if __name__ == "__main__":
    main()
