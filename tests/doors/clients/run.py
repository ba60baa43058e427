"""Real clients against the real server, through every door:  run.py BINARY

    dev.toml ─▶ paho over TCP and WebSocket, mosquitto's tools, mqtt.js, SDKs of AWS, topics ┐
    with TLS ─▶ paho with a password, with a certificate, over WebSocket; certificates       ├ beside each other
    others   ─▶ rules, reload, limits, drain, kill -9, the pages: a server for each            ┘
"""

import concurrent.futures
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import cases
import changes
import demo
import hook
import ledger
import life
import pacing
import people
import queue_topics
import queues
import readme_block
import rights
import smpp
import sqs
import stage
import troubles
import webhook
from client import Door, run
from fixture import Fixture
from server import serve


def programs(server):
    """Clients that are programs of their own; they print their cases."""
    host, _, port = server.mqtt.rpartition(":")
    commands = [
        [HERE / "command_line.sh", host, port, server.http],
        ["node", HERE / "javascript" / "clients.mjs", server.mqtt, server.http],
        ["node", HERE / "javascript" / "sqs.mjs", f"http://{server.http}"],
    ]
    ended = [subprocess.run(command, timeout=300) for command in commands]
    return sum(process.returncode != 0 for process in ended)


def play(about, chosen, *arguments):
    return sum(run(f"{about}: {name}", case, *arguments) for name, case in chosen)


def main():
    binary = sys.argv[1]
    failed = 0
    with Fixture() as fixture, concurrent.futures.ThreadPoolExecutor() as pool:
        secure = fixture.config("tls.toml", fixture.tls())
        with serve(binary) as plain, serve(binary, config=secure, tls=fixture.context()) as safe:
            tcp, websocket = Door(plain.mqtt), Door(plain.http, websocket=True)
            password = Door(safe.mqtts, tls=fixture.context(), user="dave", password="dave")
            certificate = Door(safe.mqtts, tls=fixture.context("dave"))
            both = Door(safe.http, websocket=True, tls=fixture.context(), user="dave", password="dave")
            played = [
                pool.submit(cases.run_all, tcp, (), "TCP"),
                pool.submit(cases.run_all, websocket, (), "WebSocket"),
                pool.submit(cases.run_all, password, (), "TLS"),
                pool.submit(cases.run_all, certificate, (), "TLS with certificate"),
                pool.submit(cases.run_all, both, (), "WebSocket and TLS"),
                pool.submit(programs, plain),
                pool.submit(play, "ledger", ledger.CASES, plain, tcp),
                pool.submit(play, "changes", changes.CASES, plain, tcp),
                pool.submit(play, "queues", queues.CASES, plain, tcp),
                pool.submit(play, "queue topics", queue_topics.CASES, plain, tcp),
                pool.submit(play, "queue topics, TLS", queue_topics.CASES[:2], safe, password),
                pool.submit(play, "sqs", sqs.CASES, plain, tcp),
                pool.submit(play, "rights", rights.CASES, plain, tcp),
                pool.submit(play, "rights", rights.TLS_CASES, safe, fixture),
            ]
            failed += sum(future.result() for future in played)
        failed += play("rights", rights.OWN, binary, fixture)
        failed += play("people", people.OWN, binary, fixture)
        failed += play("queue topics", queue_topics.OWN, binary, fixture)
        failed += play("sqs", sqs.OWN, binary, fixture)
        failed += play("smpp", smpp.OWN, binary, fixture)
        failed += play("webhook", webhook.OWN, binary, fixture)
        failed += play("hook", hook.OWN, binary, fixture)
        failed += play("changes", changes.OWN, binary, fixture)
        failed += play("life", life.CASES, binary, fixture)
    with serve(binary) as server:
        failed += run("readme: the first message as printed", readme_block.as_printed, server, Door(server.mqtt))
    failed += run("demo: two viewers, eleven votes, no credits left", demo.play, binary)
    failed += run("troubles: what a voter is told, odd accounts, two pages, double clicks", troubles.play, binary)
    failed += run("stage: phone and big screen, restarts, lost answers, dark and light", stage.play, binary)
    failed += run("pacing: a day of seven campaigns on the page", pacing.play, binary)
    sys.exit(min(1, failed))


if __name__ == "__main__":
    main()
