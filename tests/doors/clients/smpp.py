"""Messages of a queue over SMPP: the server of npm's `smpp` as the SMSC, which answers as each case tells it."""

import json
import pathlib
import queue
import subprocess
import tempfile
import threading
import time
import uuid

from client import Wrong, expect
from fixture import SERVICE
from server import Server, free_address, serve

SMSC = pathlib.Path(__file__).parent / "javascript" / "smsc.mjs"
SECONDS_MAX = 30
THROTTLED, QUEUE_FULL, SYSTEM_ERROR, BAD_RECIPIENT = 0x58, 0x14, 0x08, 0x0B
OWN = []


def wait_for(what, done):
    """Waits for a condition that another program brings about; what it gives."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := done()):
        if time.monotonic() > deadline:
            raise Wrong(f"{what} did not come in {SECONDS_MAX} s")
        time.sleep(0.02)
    return found


def case(play):
    OWN.append((play.__name__, play))
    return play


class Smsc:
    """The SMSC. Its events are taken one by one."""

    def __init__(self, port=0, **told):
        self.command, self.told, self.events, self.seen = ["node", str(SMSC), str(port)], told, queue.Queue(), []
        self.does_as_told = queue.Queue()
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read, args=(self.process.stdout,), daemon=True)
        self.reader.start()
        self.port = self.next("listening")["port"]
        self.command[2] = str(self.port)
        self.tell(**self.told)

    def read(self, lines):
        for event in map(json.loads, lines):
            (self.does_as_told if event["event"] == "told" else self.events).put(event)

    def tell(self, **what):
        """Tells it what to do, and waits until it does that."""
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        self.does_as_told.get(timeout=SECONDS_MAX)

    def next(self, name, **fields):
        """The next event of a name with these fields; others before it are passed over."""
        while True:
            try:
                event = self.events.get(timeout=SECONDS_MAX)
            except queue.Empty:
                raise Wrong(f"no {name} {fields} within {SECONDS_MAX} s; before it: {self.seen[-5:]}") from None
            self.seen.append(event)
            if event["event"] == name and all(event.get(key) == value for key, value in fields.items()):
                return event

    def count(self, name):
        """Events of a name so far."""
        while not self.events.empty():
            self.seen.append(self.events.get())
        return sum(event["event"] == name for event in self.seen)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Sender:
    """A server with one link over SMPP, and what a service asks of its queues."""

    def __init__(self, server):
        self.server = server

    def ask(self, path, body=None):
        sent = None if body is None else json.dumps(body).encode()
        status, answer = self.server.request(path, sent, SERVICE)
        expect(status, 200, f"{path}: {answer}")
        return json.loads(answer) if answer else None

    def send(self, text, to="+49 170 1234567", queue="sms", **more):
        attributes = {"to": to, **more.pop("attributes", {})}
        message = {"body": text, "attributes": {name: text for name, text in attributes.items() if text}, **more}
        return self.ask(f"/v1/queues/{queue}/messages", {"messages": [message]})["messages"][0]["key"]

    def trail(self, key):
        return self.ask(f"/v1/messages/{key}")["trail"]

    def step(self, key, name):
        """The first step of a name in the trail of a message, as soon as it is there."""
        found = lambda: next((step for step in self.trail(key) if step["step"] == name), None)
        return wait_for(f"the step {name}", found)

    def counted(self, name):
        _, text = self.server.request("/metrics", token=SERVICE)
        return sum(float(line.split()[-1]) for line in text.decode().splitlines() if line.startswith(name + "{"))

    def queue(self, name="sms"):
        return self.ask(f"/v1/queues/{name}")


class Shipped(Server):
    """A server with config/sms.toml, on the addresses that it has."""

    def __init__(self, binary, data, log):
        self.http, self.data, self.log, self.tls = "127.0.0.1:8080", data, log, None
        self.command = [binary, "serve", "--config", "config/sms.toml", "--data", data]
        self.start()


def link(fixture, port, more="", queue=""):
    sections = f"""
[[queue]]
name = "dead"

[[queue]]
name = "phones"

[[queue]]
name = "sms"
attempts_max = 3
dead_letter = "dead"
{queue}

[[smpp]]
name = "line"
from = "sms"
address = "127.0.0.1:{port}"
system_id = "tide"
password = "secret08"
pause_max_ms = 200
{more}
"""
    return fixture.config(f"smpp-{uuid.uuid4()}.toml", more=sections)


class Line:
    """An SMSC and a server with a link to it."""

    def __init__(self, binary, fixture, more="", queue="", **told):
        self.smsc = Smsc(**told)
        self.serving = serve(binary, config=link(fixture, self.smsc.port, more, queue))

    def __enter__(self):
        self.server = self.serving.__enter__()
        return self.smsc, Sender(self.server)

    def __exit__(self, *error):
        try:
            self.serving.__exit__(*error)
            if error[0] is None:
                self.smsc.next("unbind")
        finally:
            self.smsc.stop()


@case
def a_text_is_sent_and_its_receipt_is_in_its_trail(binary, fixture):
    for receipts, more in (("text", ""), ("tlv", ""), ("decimal", 'receipt_id = "decimal"\n')):
        with Line(binary, fixture, more, receipts=receipts) as (smsc, sender):
            bind = smsc.next("bind")
            expect((bind["system_id"], bind["password"], bind["version"]), ("tide", "secret08", 0x34), "the bind")
            key = sender.send("Grüße für 5 €", attributes={"from": "Tidegate"})
            got = smsc.next("submit")
            expect((got["to"], got["to_ton"], got["to_npi"]), ("491701234567", 1, 1), "the recipient")
            expect((got["from"], got["from_ton"], got["from_npi"]), ("Tidegate", 5, 0), "the sender")
            expect((got["text"], got["coding"], got["esm_class"]), ("Grüße für 5 €", 0, 0), "the text")
            expect(smsc.next("receipt answered")["status"], 0, "the answer to the receipt")
            noted = sender.step(key, "noted")
            expect(noted["text"], "smpp:line: DELIVRD" + ("" if receipts == "tlv" else " (error 000)"), "the receipt")
            handed = sender.step(key, "handed")
            wanted = str(int(got["id"], 16)) if receipts == "decimal" else got["id"]
            expect((handed["to"], handed["reference"]), ("smpp:line", wanted), "to whom it was handed")
            expect(sender.counted("tidegate_smpp_receipts_total"), 1.0, "receipts")


@case
def long_texts_go_in_parts(binary, fixture):
    with Line(binary, fixture, "window = 1\n") as (smsc, sender):
        text = "Ł" * 66 + "🦀" + "z" * 10
        sender.send(text)
        parts = [smsc.next("submit") for _ in range(2)]
        expect([part["coding"] for part in parts], [8, 8], "the coding")
        expect("".join(part["text"] for part in parts), text, "the text")
        headers = [bytes.fromhex(part["udh"][0]) for part in parts]
        expect([tuple(header[3:]) for header in headers], [(2, 1), (2, 2)], "how many, and which")
        expect(headers[0][2], headers[1][2], "the reference")
        expect([(part["esm_class"], part["receipt"]) for part in parts], [(0x40, 0), (0x40, 1)], "classes, receipts")
        dead = sender.send("x" * (153 * 10 + 1))
        reason = sender.step(dead, "dead")["reason"]
        expect("11 short messages" in reason, True, reason)
    with Line(binary, fixture, 'numbering = "sar"\nwindow = 1\n') as (smsc, sender):
        sender.send("x" * 161)
        parts = [smsc.next("submit") for _ in range(2)]
        expect([part["sar"][1:] for part in parts], [[2, 1], [2, 2]], "the TLVs")
        expect([len(part["text"]) for part in parts], [153, 8], "the text")


@case
def what_can_never_be_sent_is_a_dead_letter_with_its_reason(binary, fixture):
    with Line(binary, fixture) as (smsc, sender):
        smsc.next("bind")
        for to, why in ((None, 'no attribute "to"'), ("nobody in particular", "expected a number")):
            reason = sender.step(sender.send("hi", to), "dead")["reason"]
            expect(why in reason, True, reason)
        smsc.tell(answers=[BAD_RECIPIENT])
        reason = sender.step(sender.send("hi"), "dead")["reason"]
        expect("ESME_RINVDSTADR" in reason, True, reason)
        expect(sender.queue("dead")["waiting"], 3, "dead letters")


@case
def errors_that_pass_are_attempts(binary, fixture):
    with Line(binary, fixture) as (smsc, sender):
        smsc.tell(answers=[SYSTEM_ERROR, SYSTEM_ERROR])
        key = sender.send("hi")
        sender.step(key, "handed")
        reasons = [step["reason"] for step in sender.trail(key) if step["step"] == "rejected"]
        expect(["ESME_RSYSERR" in reason for reason in reasons], [True, True], f"{reasons}")
        smsc.tell(answers=[SYSTEM_ERROR] * 3)
        reason = sender.step(sender.send("hi"), "dead")["reason"]
        expect("ESME_RSYSERR" in reason, True, "the third attempt is the last")


@case
def an_smsc_that_has_too_much_is_asked_more_slowly_and_costs_no_attempt(binary, fixture):
    with Line(binary, fixture) as (smsc, sender):
        smsc.tell(answers=[THROTTLED, QUEUE_FULL] * 3)
        keys = [sender.send(f"{number}") for number in range(2)]
        for key in keys:
            sender.step(key, "handed")
        steps = [step["step"] for key in keys for step in sender.trail(key)]
        expect((steps.count("returned"), steps.count("rejected"), steps.count("dead")), (6, 0, 0), f"{steps}")
        expect(sender.counted("tidegate_smpp_throttled_total"), 6.0, "complaints")
        rate = sender.counted("tidegate_smpp_rate")
        expect(0 < rate < 100, True, f"{rate} a second")


@case
def while_the_smsc_is_away_messages_wait_and_no_attempt_counts(binary, fixture):
    with Line(binary, fixture) as (smsc, sender):
        smsc.next("bind")
        smsc.stop()
        keys = [sender.send(f"{number}", ordering_key=f"{number % 3}") for number in range(30)]
        wait_for("the link does not work", lambda: "the link does not work" in sender.server.said())
        expect(sender.queue()["waiting"] + sender.queue().get("leased", 0), 30, "messages that wait")
        smsc.start()
        got = [smsc.next("submit")["text"] for _ in keys]
        expect(sorted(got, key=int), [f"{number}" for number in range(30)], "each came once")
        for ordering in range(3):
            of_key = [int(text) for text in got if int(text) % 3 == ordering]
            expect(of_key, sorted(of_key), "in the order of their key")
        for key in keys:
            sender.step(key, "handed")
            expect([step for step in sender.trail(key) if step["step"] in ("rejected", "dead")], [], "attempts")
        wait_for("the link works again", lambda: "the link works again" in sender.server.said())


@case
def an_smsc_that_does_not_answer_is_left_and_asked_again(binary, fixture):
    with Line(binary, fixture, "response_ms = 300\n") as (smsc, sender):
        smsc.next("bind")
        smsc.tell(silent=True)
        key = sender.send("hi")
        smsc.next("submit")
        expect("did not answer within 300 ms" in sender.step(key, "returned")["reason"], True, "why it came back")
        smsc.tell(silent=False)
        sender.step(key, "handed")
        # Silence alone is noticed, too.
    with Line(binary, fixture, "response_ms = 300\nenquire_link_s = 1\n") as (smsc, sender):
        smsc.next("bind")
        smsc.next("enquire_link")
        smsc.tell(silent=True)
        smsc.next("enquire_link")
        smsc.next("closed")
        smsc.tell(silent=False)
        smsc.next("bind")
        sender.step(sender.send("hi"), "handed")


@case
def a_text_at_which_the_smsc_hangs_up_is_put_aside_and_others_pass(binary, fixture):
    with Line(binary, fixture, poison="poison") as (smsc, sender):
        smsc.next("bind")
        bad = sender.send("poison")
        keys = [sender.send(f"{number}") for number in range(30)]
        for key in keys:
            sender.step(key, "handed")
        expect("closed the connection" in sender.step(bad, "rejected")["reason"], True, "why it waits")
        expect(bad in sender.server.said(), True, "the log names it")
        expect(sender.queue()["scheduled"], 1, "it is tried again later")
        smsc.tell(poison="")
        sender.step(sender.send("after it"), "handed")


@case
def a_bind_that_is_refused_is_told_and_tried_again(binary, fixture):
    with Line(binary, fixture, refuse=0x0D) as (smsc, sender):
        key = sender.send("hi")
        smsc.next("bind")
        wait_for("ESME_RBINDFAIL", lambda: "ESME_RBINDFAIL" in sender.server.said())
        expect([step["step"] for step in sender.trail(key)], ["sent"], "it waits")
        smsc.tell(refuse=0)
        sender.step(key, "handed")


@case
def sessions_are_asked_and_ended_from_the_other_side(binary, fixture):
    with Line(binary, fixture) as (smsc, sender):
        smsc.next("bind")
        smsc.tell(ask=True)
        expect(smsc.next("enquire_link answered")["status"], 0, "the answer")
        too_short, too_long = "00000004" + "00" * 12, "ffffffff" + "00" * 12
        for told in ({"unbind": True}, {"drop": True}, {"raw": too_short}, {"raw": too_long}):
            smsc.tell(**told)
            smsc.next("bind")
        sender.step(sender.send("hi"), "handed")


@case
def messages_of_phones_are_durable_before_they_are_answered(binary, fixture):
    with Line(binary, fixture, 'inbound = "phones"\n') as (smsc, sender):
        smsc.next("bind")
        fields = {"source_addr": "491709999999", "source_addr_ton": 1, "destination_addr": "24680"}
        smsc.tell(deliver={**fields, "data_coding": 0, "short_message": "für 5 €"})
        expect(smsc.next("delivery answered")["status"], 0, "the answer")
        sender.server.kill()
        sender.server.start()
        sender.server.wait_until_ready()
        got = sender.ask("/v1/queues/phones/receive", {"max": 10})["messages"]
        wanted = ("für 5 €", {"from": "+491709999999", "to": "24680"})
        expect([(message["body"], message["attributes"]) for message in got], [wanted], "the message")
        smsc.next("bind")
        # A delivery that cannot be read is answered, and the session goes on.
        smsc.tell(raw="00000014" "00000005" "00000000" "00000063" "ffffffff")
        smsc.tell(deliver={**fields, "short_message": "again"})
        wait_for("the message", lambda: sender.counted("tidegate_smpp_inbound_total") == 1.0)
        expect(sender.counted("tidegate_smpp_turned_away_total"), 1.0, "turned away")
    with Line(binary, fixture) as (smsc, sender):
        smsc.next("bind")
        smsc.tell(deliver={"source_addr": "1", "destination_addr": "2", "short_message": "hi"})
        expect(smsc.next("delivery answered")["status"], 0x65, "without a queue for them")
        receipt = {"source_addr": "1", "destination_addr": "2", "esm_class": 4, "short_message": "id:77 stat:DELIVRD"}
        smsc.tell(deliver=receipt)
        expect(smsc.next("delivery answered")["status"], 0, "a receipt of nobody's message")
        expect(sender.counted("tidegate_smpp_receipts_unmatched_total"), 1.0, "receipts of nobody's message")


@case
def what_was_under_way_at_a_kill_is_sent_again(binary, fixture):
    with Line(binary, fixture, "lease_ms = 1000\n", silent=False) as (smsc, sender):
        smsc.next("bind")
        smsc.tell(silent=True)
        key = sender.send("hi")
        smsc.next("submit")
        sender.server.kill()
        smsc.tell(silent=False)
        sender.server.start()
        sender.server.wait_until_ready()
        sender.step(key, "handed")


@case
def keys_that_cannot_be_are_refused_with_their_line(binary, fixture):
    wrong = [
        ('password_file = "/nowhere"\n', "smpp.password: password_file is there too; keep one of them"),
        ('system_type = "longer than may be"\n', "smpp.system_type: expected at most 12 characters"),
        ('codings = ["ebcdic"]\n', 'smpp.codings: "ebcdic": expected "gsm"'),
        ('source = "not an address at all"\n', "smpp.source: expected a number"),
        ("window = 0\n", "1 to 1000"),
    ]
    for more, what in wrong:
        command = [binary, "serve", "--check", "--config", link(fixture, free_address().rpartition(":")[2], more)]
        ended = subprocess.run(command, capture_output=True, text=True)
        expect((ended.returncode, what in ended.stderr), (1, True), ended.stderr + ended.stdout)


@case
def the_example_runs_as_printed(binary, _fixture):
    command = ["examples/sms/sms.py", "--tidegate", binary, "--messages", "2000"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    expect(ended.returncode, 0, ended.stdout + ended.stderr)
    expect("2000 texts passed three nodes and came to the SMSC once and in order" in ended.stdout, True, ended.stdout)
    expect("DELIVRD" in ended.stdout, True, ended.stdout)


@case
def one_server_of_config_sms_toml_has_all_queues(binary, _fixture):
    with Smsc(2775, receipts="text") as smsc, tempfile.TemporaryDirectory() as data, open(f"{data}/log", "w+") as log:
        server = Shipped(binary, f"{data}/data", log)
        try:
            server.wait_until_ready()
            sender = Sender(server)
            key = sender.send("Grüße", queue="client")
            expect(smsc.next("submit")["text"], "Grüße", "the text")
            found = lambda: sender.ask(f"/v1/queues/outgoing/ids/{key}")["trail"]
            wait_for("the receipt", lambda: any(step["step"] == "noted" for step in found()))
            smsc.tell(deliver={"source_addr": "4917", "destination_addr": "24680", "short_message": "hi"})
            expect(smsc.next("delivery answered")["status"], 0, "a message of a phone")
            server.stop()
        finally:
            if server.process.poll() is None:
                server.kill()
