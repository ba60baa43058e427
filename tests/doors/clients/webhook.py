"""Messages of a queue as POSTs to a program: a real small HTTP server, which takes, refuses, is slow and goes away."""

import base64
import hashlib
import hmac
import http.server
import json
import queue
import subprocess
import threading
import uuid

from client import Wrong, expect
from server import free_address, serve
from smpp import SECONDS_MAX, Sender, wait_for

SECRET = base64.b64encode(b"what only the two know").decode()
OWN = []


def case(play):
    OWN.append((play.__name__, play))
    return play


class Program:
    """The program of the operator. `answers` are statuses and headers of the next answers; then 204."""

    def __init__(self):
        self.address, self.answers, self.posts, self.server = free_address(), [], queue.Queue(), None

    def start(self):
        program = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                program.posts.put((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                status, headers = program.answers.pop(0) if program.answers else (204, {})
                said = b"" if status == 204 else b"as it was told"
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_):
                pass

        host, _, port = self.address.rpartition(":")
        self.server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def next(self):
        try:
            return self.posts.get(timeout=SECONDS_MAX)
        except queue.Empty:
            raise Wrong(f"nothing was posted within {SECONDS_MAX} s") from None


class Hook:
    """A program, and a server that posts to it."""

    def __init__(self, binary, fixture, more=""):
        self.program = Program()
        sections = f"""
[[queue]]
name = "dead"

[[queue]]
name = "sms"
attempts_max = 3
dead_letter = "dead"

[[webhook]]
name = "orders"
from = "sms"
url = "http://{self.program.address}/hook?a=1"
secret = "whsec_{SECRET}"
pause_max_ms = 200
{more}
"""
        self.serving = serve(binary, config=fixture.config(f"webhook-{uuid.uuid4()}.toml", more=sections))

    def __enter__(self):
        return self.program, Sender(self.serving.__enter__())

    def __exit__(self, *error):
        self.serving.__exit__(*error)
        if self.program.server:
            self.program.stop()


@case
def a_message_is_posted_and_signed(binary, fixture):
    with Hook(binary, fixture) as (program, sender):
        program.start()
        key = sender.send('{"order":"é"}', attributes={"Größe": "12"})
        path, headers, body = program.next()
        expect((path, body.decode()), ("/hook?a=1", '{"order":"é"}'), "the request")
        expect((headers["webhook-id"], headers["content-type"]), (key, "application/json"), "its headers")
        expect((headers["tidegate-queue"], headers["tidegate-attempt"]), ("sms", "1"), "which attempt")
        expect(json.loads(headers["tidegate-attributes"])["Größe"], "12", "the attributes")
        signed = f"{key}.{headers['webhook-timestamp']}.".encode() + body
        mac = hmac.new(base64.b64decode(SECRET), signed, hashlib.sha256).digest()
        expect(headers["webhook-signature"], "v1," + base64.b64encode(mac).decode(), "the signature")
        expect(sender.step(key, "handed")["to"], "webhook:orders", "to whom")
        sender.send("a,b", attributes={"content-type": "text/csv"})
        expect(program.next()[1]["content-type"], "text/csv", "the type of this one")


@case
def answers_decide_what_becomes_of_a_message(binary, fixture):
    with Hook(binary, fixture, "concurrency = 1\n") as (program, sender):
        program.start()
        program.answers = [(410, {})]
        key = sender.send("gone")
        expect("410 Gone: as it was told" in sender.step(key, "dead")["reason"], True, "a dead letter says why")
        program.answers = [(500, {}), (302, {"location": "/elsewhere"})]
        key = sender.send("twice")
        sender.step(key, "handed")
        steps = [step["step"] for step in sender.trail(key)]
        expect((steps.count("rejected"), steps.count("returned")), (2, 0), f"attempts that count: {steps}")
        program.answers = [(429, {"retry-after": "1"}), (503, {"retry-after": "1"})] * 2
        key = sender.send("later")
        sender.step(key, "handed")
        steps = sender.trail(key)
        returned = [step for step in steps if step["step"] == "returned"]
        expect((len(returned), [step for step in steps if step["step"] == "rejected"]), (4, []), f"{steps}")
        waits = [step["until_ms"] - step["time_ms"] for step in returned]
        expect(waits, [1000] * 4, "as long as it was asked to wait")
        program.answers = [(500, {})] * 3
        expect("500" in sender.step(sender.send("thrice"), "dead")["reason"], True, "the third attempt is the last")


@case
def while_the_program_is_away_messages_wait_and_no_attempt_counts(binary, fixture):
    with Hook(binary, fixture) as (program, sender):
        keys = [sender.send(f"{number}") for number in range(20)]
        wait_for("a word of it", lambda: "the link does not work" in sender.server.said())
        wait_for("several pauses", lambda: sum(step["step"] == "returned" for step in sender.trail(keys[0])) >= 4)
        program.start()
        got = sorted(int(program.next()[2]) for _ in keys)
        expect(got, list(range(20)), "each came once")
        for key in keys:
            sender.step(key, "handed")
            expect([step for step in sender.trail(key) if step["step"] in ("rejected", "dead")], [], "attempts")
        wait_for("a word of it", lambda: "the link works again" in sender.server.said())


@case
def keys_that_cannot_be_are_refused_with_their_line(binary, fixture):
    wrong = [
        ('url = "ftp://example.org"\nsecret = "a"', "webhook.url: expected an address"),
        ('url = "http://example.org/a b"\nsecret = "a"', "webhook.url: expected an address"),
        ('url = "http://example.org"\nsecret = ""', "webhook.secret: expected one that is not empty"),
        ('url = "http://localhost"', "webhook.secret: expected secret or secret_file"),
        ('url = "http://localhost"\nsecret = "whsec_???"', "webhook.secret: behind whsec_ it is no base64"),
    ]
    for keys, what in wrong:
        more = f'\n[[webhook]]\nname = "orders"\nfrom = "sms"\n{keys}\n'
        config = fixture.config(f"webhook-{uuid.uuid4()}.toml", more=more)
        ended = subprocess.run([binary, "serve", "--check", "--config", config], capture_output=True, text=True)
        expect((ended.returncode, what in ended.stderr), (1, True), ended.stderr + ended.stdout)
