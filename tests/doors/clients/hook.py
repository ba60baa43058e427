"""Log-ins that a program of the operator decides on, over HTTP: a real small server, which allows, denies, is slow,
says nonsense and goes away.
"""

import contextlib
import http.server
import json
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

from client import Client, Door, V311, expect
from fixture import SERVICE
from people import post, until
from server import free_address, serve

SECRET = "what only the hook knows"
EXAMPLE = pathlib.Path("examples/auth_hook/hook.py")


class Hook:
    """The program. `answer(question)` gives what it says: a dict, or bytes, or (status, bytes)."""

    def __init__(self, answer):
        self.answer, self.address, self.asked, self.secrets = answer, free_address(), [], []
        self.server, self.connections = None, []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                hook.connections.append(self.connection)

            def do_POST(self):
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.secrets.append(self.headers["X-Tidegate-Secret"])
                hook.asked.append(question)
                answer = hook.answer(question)
                status, body = answer if isinstance(answer, tuple) else (200, answer)
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        host, _, port = self.address.rpartition(":")
        self.server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
            # Kept open between questions.
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.connections.clear()


def configured(fixture, address, *lines):
    secret = pathlib.Path(fixture.path("hook.secret"))
    secret.write_text(SECRET + "\n")
    settings = [f'url = "http://{address}/ask"', f'secret_file = "{secret}"', *lines]
    return fixture.config("hook.toml", more="\n[auth_hook]\n" + "\n".join(settings) + "\n")


def log_in(server, user, password):
    status, body = server.request("/v1/login", json.dumps({"user": user, "password": password}).encode())
    return status, json.loads(body)


def says(server, user, password, wanted, version=None):
    """A CONNECT with this user name and password is answered so."""
    client = Client(Door(server.mqtt, user=user, password=password), client_id="of-" + user,
                    **({"version": version} if version else {}))
    client.connect(wanted)
    client.leave()


def metrics(server):
    return server.request("/metrics", token=SERVICE)[1].decode()


def counted(server, name, wanted):
    until(f"{name} {wanted}", lambda: f"{name} {wanted}\n" in metrics(server))


def lets_in_and_keeps_out(binary, fixture):
    def answer(question):
        if question["password"] != "right":
            return {"result": "ignore" if question["user"] == "nobody" else "deny"}
        if question["user"] == "operator":
            return {"result": "allow", "role": "service", "grants": ["audit", "publish:plant/#", "subscribe:plant/#"]}
        return {"result": "allow"}

    lines = ['wallets = ["wallet:hook:{user}"]', 'open_wallets_in = "credit"', "denied_s = 0"]
    with Hook(answer) as hook, serve(binary, config=configured(fixture, hook.address, *lines)) as server:
        status, given = log_in(server, "anna", "right")
        expect(status, 200, "a log-in over HTTP")
        expect(hook.asked[-1], {"user": "anna", "password": "right", "address": "127.0.0.1", "door": "http"},
               "the question")
        expect(hook.secrets[-1], SECRET, "the header with the secret")
        path = "/v1/accounts/wallet:hook:anna"
        status, wallet = server.request(path, token=given["token"])
        expect((status, json.loads(wallet)["balance"]), (200, 0), "the wallet that the first use opens")
        bought = {"id": "hook-bought", "debit": "source:shop", "credit": "wallet:hook:anna", "amount": 1}
        expect(post(server, "/v1/transfers", bought, SERVICE)[0], 201, "credits are sold")
        vote = {"id": "hook-vote", "debit": "wallet:hook:anna", "credit": "candidate:1", "amount": 1}
        expect(post(server, "/v1/transfers", vote, given["token"])[0], 201, "a vote")
        stolen = {"id": "hook-stolen", "debit": "wallet:dave", "credit": "candidate:1", "amount": 1}
        expect(post(server, "/v1/transfers", stolen, given["token"])[0], 403, "a vote with another's credits")
        says(server, "anna", given["token"], "Success")
        says(server, "somebody", given["token"], "Bad user name or password")

        asked = len(hook.asked)
        says(server, "anna", "right", "Success")
        expect(len(hook.asked), asked, "questions about a password that is remembered")
        says(server, "ben", "right", "Success", V311)
        expect(hook.asked[-1], {"user": "ben", "password": "right", "client_id": "of-ben", "address": "127.0.0.1",
                                "door": "mqtt"}, "the question of MQTT")
        with Client(Door(server.mqtt, user="operator", password="right")) as operator:
            operator.subscribe("plant/#")
            operator.publish("plant/1", "runs", qos=1)
            operator.receive("runs")
        expect(server.request("/v1/audit", token=log_in(server, "operator", "right")[1]["token"])[0], 200, "a grant")

        asked = len(hook.asked)
        expect(log_in(server, "dave", "dave")[0], 200, "a user of the file")
        expect(len(hook.asked), asked, "questions about a user of the file")
        expect(log_in(server, "anna", "wrong")[0], 401, "a wrong password")
        says(server, "anna", "wrong", "Bad user name or password")
        says(server, "nobody", "wrong", "Bad user name or password")
        expect(log_in(server, "not/a/name", "right")[0], 401, "a name that none can have")
        expect(len(hook.asked), asked + 3, "questions about wrong passwords")
        until("the refusal in the security log", lambda: "wrong user or password" in server.said())
        counted(server, 'tidegate_auth_hook_logins_total{outcome="denied"}', 3)
        expect("tidegate_auth_hook_up 1\n" in metrics(server), True, "the hook is up")
        expect('"right"' in server.said() or "password=right" in server.said(), False, "a password in the log")


def changes_and_ends(binary, fixture):
    state = {"password": "one", "ends": None, "wallets": ["w:shared"]}

    def answer(question):
        if question["password"] != state["password"]:
            return {"result": "deny"}
        allowed = {"result": "allow", "wallets": state["wallets"]}
        return allowed | ({"expires_at": int(state["ends"])} if state["ends"] else {})

    lines = ["allowed_s = 1", "denied_s = 1"]
    with Hook(answer) as hook, serve(binary, config=configured(fixture, hook.address, *lines)) as server:
        expect(log_in(server, "anna", "one")[0], 200, "the first password")
        state["password"] = "two"
        until("the end of the old password", lambda: log_in(server, "anna", "one")[0] == 401)
        until("the new password", lambda: log_in(server, "anna", "two")[0] == 200)
        state["ends"] = time.time() + 3
        with Client(Door(server.mqtt, user="ben", password="two")) as ben:
            ben.wait("disconnect")
            expect(time.time() >= state["ends"] - 1, True, "ben stays until the hook's word ends")
        expect(log_in(server, "ben", "two")[0], 401, "after its end")
        until("the reason", lambda: "its expires_at is over" in server.said())
        state["ends"] = time.time() + 60
        status, given = log_in(server, "cara", "two")
        expect((status, given["expires_at"][:4]), (200, time.strftime("%Y", time.gmtime(state["ends"]))), "a token")
        state["ends"], state["wallets"] = None, ["wallet:dave"]
        expect(log_in(server, "thief", "two")[0], 401, "the wallet of a user of the file")
        # Such reasons are told once a second, of whomever they are.
        until("the reason", lambda: log_in(server, "thief", "two")[0] == 401 and "that of a [[user]]" in server.said())


def goes_away(binary, fixture):
    lines = ["retry_max_s = 1", "timeout_ms = 300", "allowed_s = 600"]
    with Hook(lambda question: {"result": "allow"}) as hook:
        with serve(binary, config=configured(fixture, hook.address, *lines)) as server:
            says(server, "anna", "right", "Success")
            hook.stop()
            says(server, "anna", "right", "Success")
            says(server, "ben", "right", "Server unavailable")
            says(server, "ben", "right", "Server unavailable", V311)
            for _ in range(6):
                status, problem = log_in(server, "ben", "right")
                expect((status, problem["code"]), (503, "login_unavailable"), "a log-in while the hook is down")
            # Left alone: the answer needs no time-out.
            expect("tidegate_auth_hook_up 0\n" in metrics(server), True, "the hook is down")
            expect(log_in(server, "dave", "dave")[0], 200, "a user of the file")
            until("the failure in the log", lambda: "does not answer as it should" in server.said())
            expect(server.said().count("does not answer as it should"), 1, "times that it is told")
            hook.start()
            until("the hook again", lambda: log_in(server, "ben", "right")[0] == 200)
            until("that in the log", lambda: "the log-in hook answers again" in server.said())
            expect("tidegate_auth_hook_up 1\n" in metrics(server), True, "the hook is up")
            hook.stop()
            expect(log_in(server, "eve", "right")[0], 503, "a log-in while the hook is down again")
            expect("tidegate_auth_hook_up 0\n" in metrics(server), True, "the hook is down again")
            # The config without a hook takes the place of the one with it.
            fixture.config("hook.toml")
            server.process.send_signal(signal.SIGHUP)
            until("no hook that is down", lambda: "tidegate_auth_hook_up 1\n" in metrics(server))


def is_slow_or_says_nonsense(binary, fixture):
    never = threading.Event()
    # Answers that come whole and cannot be followed refuse that user; the others are failures of the hook.
    refused = {
        "words": lambda: b"welcome",
        "other": lambda: {"result": "maybe"},
        "long": lambda: {"result": "allow", "more": "x" * 5_000},
    }
    failures = {"slow": lambda: never.wait(30) or {"result": "allow"}, "away": lambda: (302, b"")}
    nonsense = refused | failures
    lines = ["timeout_ms = 500", "retry_max_s = 1"]
    answer = {"result": "allow"}
    with Hook(lambda question: nonsense.get(question["user"], lambda: answer)()) as hook:
        with serve(binary, config=configured(fixture, hook.address, *lines)) as server:
            for name in nonsense:
                expect(log_in(server, name, "right")[0], 401 if name in refused else 503, f"a hook that is {name}")
                expect(log_in(server, "anna" + name, "right")[0], 200, "one that is not")
            counted(server, "tidegate_auth_hook_failures_total", len(failures))
            never.set()


def makes_who_guesses_wait(binary, fixture):
    with Hook(lambda question: {"result": "deny"}) as hook:
        with serve(binary, config=configured(fixture, hook.address)) as server:
            answers = [log_in(server, f"user-{number}", "guess")[0] for number in range(12)]
            expect(answers, [401] * 11 + [429], "guesses of one address")
            says(server, "anna", "right", "Connection rate exceeded")
            expect(len(hook.asked), 11, "questions")


def as_the_example(binary, fixture):
    address = free_address()
    environment = {"SECRET": SECRET, "PORT": address.rpartition(":")[2]}
    process = subprocess.Popen([sys.executable, EXAMPLE], env=environment)
    try:
        with serve(binary, config=configured(fixture, address)) as server:
            until("the example", lambda: log_in(server, "sensor-1", "a long password of its own")[0] == 200)
            with Client(Door(server.mqtt, user="sensor-1", password="a long password of its own")) as sensor:
                sensor.subscribe("devices/sensor-1/#")
                sensor.publish("devices/sensor-1/state", "on", qos=1)
                sensor.receive("on")
            expect(log_in(server, "sensor-1", "another one")[0], 401, "a wrong password")
    finally:
        process.terminate()
        process.wait()


OWN = [(case.__name__.replace("_", " "), case)
       for case in [lets_in_and_keeps_out, changes_and_ends, goes_away, is_slow_or_says_nonsense,
                    makes_who_guesses_wait, as_the_example]]
