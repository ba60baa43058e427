"""Following the ledger's changes by MQTT: a durable session goes on where it acknowledged, whatever happened."""

import json
import pathlib
import queue
import random
import shutil
import subprocess
import tempfile
import threading
import time
import uuid

from client import FOREVER, V5, V311, Client, Door, Wrong, expect, properties
from fixture import SERVICE
from ledger import vote
from paho.mqtt.subscribeoptions import SubscribeOptions
from server import serve

CHANGES = "$ledger/changes"
DENIED, SHARED_NOT_SUPPORTED, UNSPECIFIED = 0x87, 0x9E, 0x80
CASES, OWN = [], []


def case(play):
    """Registers a case; it gets the server and its door for MQTT."""
    CASES.append((play.__name__, play))
    return play


def own(play):
    """Registers a case with a server of its own; it gets the binary and the fixture."""
    OWN.append((play.__name__, play))
    return play


class Follower(Client):
    """A client that acknowledges when it is told to."""

    def __init__(self, door, client_id, version=V5, **more):
        super().__init__(door, client_id, version, clean=False, expiry_s=FOREVER, **more)
        self.paho.manual_ack_set(True)

    def ack(self, message):
        self.paho.ack(message.mid, message.qos)

    def subscribe_after(self, after, name, wanted):
        """Subscribes with the user property that names a place."""
        props = properties("SUBSCRIBE")
        props.UserProperty = ("after", after)
        self.paho.subscribe([(name, SubscribeOptions(qos=1))], properties=props)
        expect([reason.value for reason in self.wait("subscribe")[1]], wanted, f"SUBACK after {after!r}")

    def next(self, seconds=15):
        try:
            return self.inbox.get(timeout=seconds)
        except queue.Empty:
            raise Wrong(f"nothing came within {seconds} s") from None


def service(door):
    return door.but(user="dev", password=SERVICE)


def transfer(server, amount=1):
    status, body = server.request("/v1/transfers", vote("candidate:4", "wallet:dave", amount).encode(), SERVICE)
    expect(status, 201, body)
    return json.loads(body)["id"]


def pour(server, wallet, amount=1_000_000):
    body = json.dumps({"id": f"pour-{uuid.uuid4()}", "debit": "source:shop", "credit": wallet, "amount": amount})
    expect(server.request("/v1/transfers", body.encode(), SERVICE)[0], 201, "credits for a wallet")


def page(server, after, token=SERVICE):
    rows = []
    while True:
        told = json.loads(server.request(f"/v1/changes?limit=1000&after={after}", token=token)[1])
        rows += told["changes"]
        after = told["next"]
        if told["at_end"]:
            return rows, after


def cursor(message):
    return dict(message.properties.UserProperty)["cursor"]


@case
def what_comes_is_what_http_tells_with_its_cursor(server, door):
    pour(server, "wallet:dave")
    _, now = page(server, "start")
    with Follower(service(door), f"follower-{uuid.uuid4()}") as follower:
        follower.subscribe(f"{CHANGES}/*", qos=1)
        transfer(server)
        transfer(server)
        rows, _ = page(server, now)
        # Other cases make changes, too, so more may come than these; the order is the same.
        for row in rows:
            message = follower.next()
            expect((message.qos, message.retain, message.dup), (1, False, False), "QoS, retain, DUP")
            expect(json.loads(message.payload), row, "the change as over HTTP")
            expect((message.topic, cursor(message)), (f"{CHANGES}/*", row["cursor"]), "topic and cursor")
            follower.ack(message)


@case
def a_viewer_follows_the_own_wallets_and_nothing_else(server, door):
    with Follower(door.but(user="dave", password="dave"), f"follower-{uuid.uuid4()}") as dave:
        dave.subscribe(f"{CHANGES}/wallet:dave", qos=1)
        dave.subscribe(f"{CHANGES}/wallet:d*", qos=1)
        dave.subscribe(f"{CHANGES}/#", qos=2, wanted=[1])
        for closed in ["wallet:carol", "source:*", "candidate:1", "wallet:dave/x", "wallet:*x", "+/x", ""]:
            dave.subscribe(f"{CHANGES}/{closed}", qos=1, wanted=[DENIED])
        dave.subscribe(f"$share/g/{CHANGES}/wallet:dave", qos=1, wanted=[SHARED_NOT_SUPPORTED])
        expect(dave.publish(f"{CHANGES}/wallet:dave", "rich", 1), DENIED, "publishing changes")
        pour(server, "wallet:carol")
        pour(server, "wallet:dave", 5)
        topics = set()
        while len(topics) < 3:
            message = dave.next()
            row = json.loads(message.payload)
            expect("wallet:dave" in (row.get("debit"), row.get("credit"), row.get("account")), True, row)
            expect("wallet:carol" in json.dumps(row), False, "somebody else's wallet")
            expect(row.get("debit") != "source:shop" or "debit_balance_after" not in row, True, "the shop's balance")
            dave.ack(message)
            topics.add(message.topic)
        expect(topics, {f"{CHANGES}/wallet:dave", f"{CHANGES}/wallet:d*", f"{CHANGES}/*"}, "topics")
    with Client(door) as nobody:
        nobody.subscribe(f"{CHANGES}/*", qos=1, wanted=[DENIED])


@case
def a_place_may_be_named_and_a_wrong_one_is_refused(server, door):
    pour(server, "wallet:dave")
    name = transfer(server)
    rows, _ = page(server, "start")
    place = next(nth for nth, row in enumerate(rows) if row.get("id") == name)
    with Follower(service(door), f"follower-{uuid.uuid4()}") as follower:
        follower.subscribe_after("nonsense", f"{CHANGES}/*", [UNSPECIFIED])
        follower.subscribe_after(rows[place - 1]["cursor"], f"{CHANGES}/*", [1])
        message = follower.next()
        expect((json.loads(message.payload), message.dup), (rows[place], False), "the change behind the cursor")
        follower.ack(message)
        follower.subscribe_after("start", f"{CHANGES}/*", [1])
        while True:
            message = follower.next()
            follower.ack(message)
            if json.loads(message.payload) == rows[0]:
                break


@case
def a_session_that_ends_with_its_connection_gets_what_happens_meanwhile(server, door):
    pour(server, "wallet:dave")
    with Client(service(door), version=V311) as live:
        live.paho.subscribe(f"{CHANGES}/wallet:dave", 1)
        expect([reason.value for reason in live.wait("subscribe")[1]], [0], "what is granted")
        name = transfer(server)
        while json.loads(live.inbox.get(timeout=15).payload).get("id") != name:
            pass


class Shop(threading.Thread):
    """Makes transfers as long as there is a server."""

    def __init__(self):
        super().__init__(daemon=True)
        self.server, self.made, self.ends = None, [], False

    def run(self):
        while not self.ends:
            try:
                self.made.append(transfer(self.server))
            except (AttributeError, OSError, ValueError):
                # None yet, killed, or it recovers. Whether the transfer counts, the journal knows.
                time.sleep(0.01)


@own
def a_durable_session_misses_nothing_over_kills(binary, fixture):
    """A slow client that vanishes and comes back, and a server that is killed in the middle, again and again."""
    chance = random.Random(7)
    shop, seen, again = Shop(), [], 0
    with tempfile.TemporaryDirectory(prefix="tidegate-changes-") as data:
        for life in range(6):
            with serve(binary, data=data) as server:
                if life == 0:
                    pour(server, "wallet:dave", 100_000_000)
                    first = Follower(service(Door(server.mqtt)), "follower", connect={"ReceiveMaximum": 20})
                    first.connect()
                    first.subscribe(f"{CHANGES}/wallet:dave", qos=1)
                    first.leave()
                    _, began = page(server, "start")
                    shop.server = server
                    shop.start()
                shop.server = server
                for visit in range(2):
                    time.sleep(0.3)
                    follower = Follower(service(Door(server.mqtt)), "follower", connect={"ReceiveMaximum": 20})
                    expect(follower.connect()[0], True, "session present")
                    for _ in range(chance.randrange(40, 120)):
                        again += take(follower, seen)
                    if visit == 0:
                        follower.vanish()
                server.kill()
                follower.paho.loop_stop()
        shop.ends = True
        shop.join()
        with serve(binary, data=data) as server:
            rows, _ = page(server, began)
            rows = [row for row in rows if "wallet:dave" in (row.get("debit"), row.get("credit"))]
            follower = Follower(service(Door(server.mqtt)), "follower", connect={"ReceiveMaximum": 20})
            follower.connect()
            while len(seen) < len(rows):
                again += take(follower, seen)
            expect(seen, [row["sequence"] for row in rows], "all changes, in their order, each once")
            expect(set(shop.made) <= {row.get("id") for row in rows}, True, "what was answered is there")
            # One more, so that nothing else is on its way.
            name = transfer(server)
            message = follower.next()
            while message.dup and json.loads(message.payload)["sequence"] in seen:
                message = follower.next()
            expect(json.loads(message.payload)["id"], name, "the next one")
            follower.leave()
            expect(again > 0 and len(seen) > 400, True, f"{again} came again of {len(seen)}: too few for a test")


def take(follower, seen):
    """Takes one message, and mostly acknowledges it; returns whether it came again."""
    message = follower.next()
    row = json.loads(message.payload)
    expect(cursor(message), row["cursor"], "cursor")
    if row["sequence"] in seen[-2_000:]:
        expect(message.dup, True, f"DUP of sequence {row['sequence']}, which comes again")
        follower.ack(message)
        return True
    expect(not seen or row["sequence"] > seen[-1], True, f"{row['sequence']} after {seen[-1:]}")
    seen.append(row["sequence"])
    follower.ack(message)
    return False


@own
def a_place_is_one_in_the_journals_of_all_shards(binary, fixture):
    """Three shards, whose changes come in no order between each other, and a server that is killed meanwhile."""
    config, seen = fixture.config("shards.toml", [("to 1024.\nshards = 1\n", "to 1024.\nshards = 3\n")]), {}

    def take_one(follower):
        message = follower.next()
        row = json.loads(message.payload)
        place = (row["shard"], row["sequence"])
        expect(place not in seen or message.dup, True, f"DUP of {place}, which comes again")
        # A cursor names a place in all journals: it depends on the order in which they were read.
        seen[place] = {name: value for name, value in row.items() if name != "cursor"}
        follower.ack(message)

    with tempfile.TemporaryDirectory(prefix="tidegate-changes-") as data:
        for life in range(4):
            with serve(binary, config=config, data=data) as server:
                follower = Follower(service(Door(server.mqtt)), "follower", connect={"ReceiveMaximum": 7})
                follower.connect()
                if life == 0:
                    follower.subscribe_after("start", f"{CHANGES}/#", [1])
                for number in range(8):
                    wallet = {"id": f"wallet:{number}", "asset": "credit", "kind": "wallet"}
                    server.request("/v1/accounts", json.dumps(wallet).encode(), SERVICE)
                    pour(server, f"wallet:{number}")
                for number in range(40):
                    body = vote(f"candidate:{1 + number % 5}", f"wallet:{number % 8}").encode()
                    expect(server.request("/v1/transfers", body, SERVICE)[0], 201, "a vote")
                for _ in range(50):
                    take_one(follower)
                server.kill()
                follower.paho.loop_stop()
        with serve(binary, config=config, data=data) as server:
            rows, _ = page(server, "start")
            with Follower(service(Door(server.mqtt)), "follower", connect={"ReceiveMaximum": 7}) as follower:
                while len(seen) < len(rows):
                    take_one(follower)
            expect({row["shard"] for row in rows}, {0, 1, 2}, "shards")
            for row in rows:
                del row["cursor"]
                expect(seen.get((row["shard"], row["sequence"])), row, "a change")


@own
def a_client_that_does_not_acknowledge_stops_only_itself(binary, fixture):
    """Nothing piles up in the server for it: the inbox stays empty, and others get theirs."""
    with serve(binary) as server:
        pour(server, "wallet:dave", 100_000_000)
        door = service(Door(server.mqtt))
        with Follower(door, "slow") as slow, Follower(door, "fast") as fast:
            slow.subscribe(f"{CHANGES}/*", qos=1)
            fast.subscribe(f"{CHANGES}/*", qos=1)
            names = []
            for _ in range(40):
                body = json.dumps({"transfers": [json.loads(vote("candidate:5")) for _ in range(50)]})
                answer = json.loads(server.request("/v1/transfers", body.encode(), SERVICE)[1])
                names += [outcome["id"] for outcome in answer["outcomes"]]
            for name in names:
                message = fast.next()
                expect(json.loads(message.payload)["id"], name, "the fast one's")
                fast.ack(message)
            # As many as may be beyond the durable place, and not one more.
            held = [slow.next() for _ in range(256)]
            try:
                raise Wrong(f"more than the window: {slow.next(1).payload}")
            except Wrong as wrong:
                expect("nothing came" in str(wrong), True, str(wrong))
            figures = server.request("/metrics", token=SERVICE)[1].decode()
            stored = [line for line in figures.splitlines() if line.startswith("tidegate_mqtt_store_messages")]
            expect(sum(float(line.split()[-1]) for line in stored), 0.0, f"messages stored: {stored}")
            streams = [line for line in figures.splitlines() if line.startswith("tidegate_mqtt_change_streams")]
            expect(sum(float(line.split()[-1]) for line in streams), 2.0, f"open streams: {streams}")
            for message in held:
                slow.ack(message)
            expect(json.loads(slow.next().payload)["id"], names[256], "and on it goes")


@own
def a_session_of_another_history_is_told(binary, fixture):
    """The ledger comes from an older copy, the sessions do not: a follower must not take other changes for its own."""
    with tempfile.TemporaryDirectory(prefix="tidegate-changes-") as root:
        data, copy, again = (f"{root}/{name}" for name in ("data", "copy", "again"))
        with serve(binary, data=data) as server:
            pour(server, "wallet:dave")
            door = service(Door(server.mqtt))
            with Follower(door, "follower") as follower:
                follower.subscribe(f"{CHANGES}/*", qos=1)
            command(binary, "backup", "--data", data, "--to", copy)
            with Follower(door, "follower") as follower:
                for _ in range(5):
                    name = transfer(server)
                    message = follower.next()
                    expect(json.loads(message.payload)["id"], name, "while the copy is older")
                    follower.ack(message)
            kept = cursor(message)
        command(binary, "restore", "--from", copy, "--data", again)
        for log in pathlib.Path(data, "journal").glob("topics-*"):
            shutil.rmtree(f"{again}/journal/{log.name}")
            shutil.copytree(log, f"{again}/journal/{log.name}")
        with serve(binary, data=again) as server:
            for _ in range(9):
                last = transfer(server)
            with Follower(service(Door(server.mqtt)), "follower") as follower:
                told = follower.next()
                said = json.loads(told.payload)
                expect((told.topic, told.qos), (f"{CHANGES}/*", 0), "topic and QoS")
                expect((said["kind"], said["code"]), ("end", "cursor_of_other_history"), "what is said")
                follower.subscribe_after(kept, f"{CHANGES}/*", [UNSPECIFIED])
                follower.subscribe_after("start", f"{CHANGES}/*", [1])
                rows, _ = page(server, "start")
                for row in rows:
                    message = follower.next()
                    expect(json.loads(message.payload), row, "from the first change on")
                    follower.ack(message)
                expect(rows[-1]["id"], last, "up to the last")


def command(binary, *words):
    ended = subprocess.run([binary, *words], capture_output=True, text=True)
    expect((ended.returncode, ended.stderr), (0, ""), " ".join(words))
