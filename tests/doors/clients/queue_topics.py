"""Queues over MQTT: `$queue-in/NAME` sends, `$queue-out/NAME` receives."""

import collections
import json
import queue
import signal
import time
import uuid

from cases import durable
from client import SECONDS_MAX, V311, V5, Client, Door, Wrong, expect
from fixture import SERVICE
from server import serve

DENIED, NO_QUEUE, NO_FILTER, FULL, OTHER, FORMAT = 0x87, 0x90, 0x8F, 0x97, 0x83, 0x99
NO_SHARE, UNKNOWN_ID = 0x9E, 0x92
CASES, OWN = [], []


def into(cases):
    return lambda play: cases.append((play.__name__, play)) or play


def asked(server, path, body=None, wanted=200, token=SERVICE):
    status, answer = server.request(path, None if body is None else json.dumps(body).encode(), token)
    expect(status, wanted, f"{path}: {answer[:200]}")
    return json.loads(answer)


def service(door):
    return door.but(user="dev", password=SERVICE)


def put(server, name, settings):
    """Makes a queue."""
    status, answer = server.request(f"/v1/queues/{name}", json.dumps(settings).encode(), SERVICE, method="PUT")
    expect(status in (200, 201), True, f"{name}: {answer[:200]}")


def made(server, **settings):
    """A new queue; its name."""
    name = f"jobs-{uuid.uuid4()}"
    put(server, name, settings)
    return name


def counts(server, name):
    view = asked(server, f"/v1/queues/{name}")
    return {kind: view[kind] for kind in ("waiting", "scheduled", "leased")}


def until(what, is_so):
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        found = is_so()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Wrong(f"it never happens that {what}")
        time.sleep(0.02)


def until_empty(server, name):
    nothing = {"waiting": 0, "scheduled": 0, "leased": 0}
    until(f"{name} is empty", lambda: counts(server, name) == nothing)


def by_hand(client):
    """Acknowledges nothing by itself."""
    client.paho.manual_ack_set(True)
    return client


def acknowledge(client, message):
    client.paho.ack(message.mid, message.qos)


def websocket(server, door):
    return door.but(address=server.http, websocket=True)


@into(CASES)
def a_message_goes_in_and_comes_out(server, door):
    for door in (door, websocket(server, door)):
        for version in (V311, V5):
            name = made(server)
            with Client(service(door), version=version) as sender, Client(service(door), version=version) as receiver:
                for qos in (1, 2):
                    expect(sender.publish(f"$queue-in/{name}", f"job {qos}", qos), 0, "reason of PUBACK")
                expect(counts(server, name)["waiting"], 2, "an acknowledged send is in the queue")
                receiver.subscribe(f"$queue-out/{name}", qos=2, wanted=[1])
                for message in receiver.receive("job 1", "job 2"):
                    expect((message.topic, message.qos, message.retain), (f"$queue-out/{name}", 1, False), "message")
                until_empty(server, name)
                expect(asked(server, f"/v1/queues/{name}")["totals"]["acknowledged"], 2, "acknowledged")
                sender.publish(f"$queue-in/{name}", "who waits gets it", 1)
                receiver.receive("who waits gets it")


@into(CASES)
def properties_are_fields_and_attributes(server, door):
    name = made(server)
    with Client(service(door)) as sender, Client(service(door), "worker-7") as receiver:
        fields = [("lang", "en"), ("id", "order-17"), ("ordering_key", "+49170"), ("priority", "7"),
                  ("delay_ms", "300")]
        sent = {"UserProperty": fields, "ContentType": "text/plain", "CorrelationData": b"c-7",
                "ResponseTopic": "answers/7", "MessageExpiryInterval": 600}
        for _ in range(2):
            expect(sender.publish(f"$queue-in/{name}", "Your code is 4711", 1, **sent), 0, "an id again is the same")
        expect(sum(counts(server, name).values()), 1, "messages of one id")
        view = asked(server, f"/v1/queues/{name}/ids/order-17")
        attributes = {"lang": "en", "content_type": "text/plain", "response_topic": "answers/7",
                      "correlation_data": {"type": "Binary", "value": "Yy03"}}
        content = view["message"]
        expect((content["attributes"], content["priority"], content["ordering_key"]), (attributes, 7, "+49170"), "HTTP")
        expect(0 < view["expires_at_ms"] - view["sent_at_ms"] <= 600_000, True, "expiry")
        receiver.subscribe(f"$queue-out/{name}", qos=1)
        props = receiver.receive("Your code is 4711").properties
        user = dict(props.UserProperty)
        expect(user, {"key": view["key"], "attempts": "1", "id": "order-17", "ordering_key": "+49170", "priority": "7",
                      "lang": "en"}, "user properties")
        expect((props.ContentType, props.CorrelationData, props.ResponseTopic), ("text/plain", b"c-7", "answers/7"),
               "properties")
        expect(0 < props.MessageExpiryInterval <= 600, True, "expiry")
        until_empty(server, name)
        trail = asked(server, f"/v1/messages/{view['key']}")["trail"]
        expect([step["step"] for step in trail], ["sent", "leased", "acknowledged"], "trail")
        expect(trail[1]["consumer"], "worker-7", "consumer")


@into(CASES)
def what_cannot_be_is_refused(server, door):
    name = made(server, messages_max=1)
    sends, receives = f"$queue-in/{name}", f"$queue-out/{name}"
    with Client(service(door)) as dev, Client(door) as anonymous, \
            Client(door.but(user="dave", password="dave")) as dave:
        for stranger in (anonymous, dave):
            expect(stranger.publish(sends, "x", 1), DENIED, "a send without a right")
            # paho passes over the reason of PUBREC, and says what PUBCOMP had: there is nothing of this packet id.
            expect(stranger.publish(sends, "x", 2), UNKNOWN_ID, "a send without a right")
            stranger.subscribe(receives, qos=1, wanted=[DENIED])
        dev.publish(sends, "of QoS 0 nobody hears", 0)
        expect(dev.publish(sends, "x", 1, retain=True), OTHER, "RETAIN")
        expect(dev.publish(f"$queue-in/no-{name}", "x", 1), NO_QUEUE, "a queue that is not there")
        expect(dev.publish("$queue-in/a/b", "x", 1), NO_QUEUE, "no name of a queue")
        expect(dev.publish(receives, "x", 1), DENIED, "only the queue speaks there")
        expect(dev.publish(f"$delayed/1/{sends}", "x", 1), NO_QUEUE, "delay_ms is for that")
        for wrong in ([("priority", "10")], [("id", "")], [("delay_ms", "soon")], [("a", "1"), ("a", "2")]):
            expect(dev.publish(sends, "x", 1, UserProperty=wrong), FORMAT, f"{wrong}")
        expect(dev.publish(sends, "x" * 270_000, 1), FULL, "a message that is too large")
        expect(counts(server, name), {"waiting": 0, "scheduled": 0, "leased": 0}, "what was refused is not there")
        expect(dev.publish(sends, "the only one", 1), 0, "a message")
        expect(dev.publish(sends, "one too many", 1), FULL, "a queue that is full")
        for filter, code in [("$queue-out/#", NO_FILTER), ("$queue-out/+", NO_FILTER),
                             (f"$queue-out/no-{name}", NO_FILTER)]:
            dev.subscribe(filter, qos=1, wanted=[code])
        dev.subscribe(receives, qos=0, wanted=[OTHER])
        dev.subscribe(f"$share/g/{receives}", qos=1, wanted=[NO_SHARE])
        dev.subscribe("#", qos=1)
        dev.hears_nothing_before(f"after/{name}", 1)
    willing = Client(service(door), will={"topic": sends, "payload": "x", "qos": 1})
    willing.connect(wanted="Topic name invalid")
    willing.leave()
    metrics = server.request("/metrics", token=SERVICE)[1].decode()
    expect('tidegate_door_refusals_total{door="mqtt"' in metrics and 'code="queue_full"' in metrics, True, "metrics")


@into(CASES)
def mqtt_3_1_1_is_not_told_that_it_was_taken(server, door):
    name = made(server, messages_max=1)
    with Client(service(door)) as dev:
        dev.publish(f"$queue-in/{name}", "the only one", 1)
    for door, topic in ((service(door), f"$queue-in/{name}"), (door, f"$queue-in/{name}"),
                        (service(door), "$queue-in/no-such-queue")):
        client = Client(door, version=V311)
        client.connect()
        client.paho.publish(topic, "x", 1)
        client.wait("disconnect")
        try:
            client.events.get_nowait()
            raise Wrong("it was acknowledged")
        except queue.Empty:
            pass
        client.leave()
    expect(counts(server, name)["waiting"], 1, "what waits")


@into(CASES)
def two_share_a_backlog_and_nothing_comes_twice(server, door):
    for versions in ((V5, V5), (V311, V5)):
        name, jobs = made(server), [f"{number}" for number in range(300)]
        with Client(service(door)) as sender:
            infos = [sender.paho.publish(f"$queue-in/{name}", job, 1) for job in jobs]
            for info in infos:
                info.wait_for_publish(SECONDS_MAX)
        got, shares = collections.Counter(), [0, 0]
        workers = [Client(service(door), version=version, connect={"ReceiveMaximum": 10}) for version in versions]
        for worker in workers:
            worker.connect()
            worker.subscribe(f"$queue-out/{name}", qos=1)
        deadline = time.monotonic() + SECONDS_MAX
        while sum(shares) < len(jobs) and time.monotonic() < deadline:
            for nth, worker in enumerate(workers):
                while not worker.inbox.empty():
                    got[worker.inbox.get().payload.decode()] += 1
                    shares[nth] += 1
            time.sleep(0.01)
        expect(sorted(got, key=int), jobs, "what both got")
        until_empty(server, name)
        expect(set(got.values()), {1}, "how often each came")
        totals = asked(server, f"/v1/queues/{name}")["totals"]
        expect((totals["delivered"], totals["acknowledged"]), (300, 300), "totals")
        expect(all(share > 0 for share in shares), True, f"each had some: {shares}")
        for worker in workers:
            worker.leave()


@into(CASES)
def a_receive_maximum_is_kept(server, door):
    for version, most in ((V5, 3), (V311, 20)):
        name = made(server)
        with Client(service(door)) as sender:
            for number in range(40):
                sender.publish(f"$queue-in/{name}", f"{number}", 1)
        receiver = by_hand(Client(service(door), version=version, connect={"ReceiveMaximum": 3}))
        receiver.connect()
        receiver.subscribe(f"$queue-out/{name}", qos=1)
        first = receiver.receive(*[f"{number}" for number in range(most)])
        expect(counts(server, name)["leased"], most, "messages under way")
        expect(receiver.inbox.empty(), True, "no more comes")
        acknowledge(receiver, first[1])
        receiver.receive(f"{most}")
        until("one is done", lambda: asked(server, f"/v1/queues/{name}")["totals"]["acknowledged"] == 1)
        receiver.leave()
        until("all others are back", lambda: counts(server, name)["waiting"] == 39)


@into(CASES)
def who_vanishes_gives_back_and_who_stays_keeps(server, door):
    name = made(server, lease_ms=1_500)
    with Client(service(door)) as sender:
        sender.publish(f"$queue-in/{name}", "job", 1)
    for vanish in (Client.vanish, Client.leave):
        mortal = by_hand(durable(service(door), V5, f"mortal-{uuid.uuid4()}"))
        mortal.connect()
        mortal.subscribe(f"$queue-out/{name}", qos=1)
        mortal.receive("job")
        until("its lease was extended twice", lambda: extensions(server, name) >= 2)
        vanish(mortal)
        until("it is back", lambda: counts(server, name)["waiting"] == 1)
    expect(asked(server, f"/v1/queues/{name}")["totals"]["lapsed"], 0, "leases that ended")
    with Client(service(door)) as other:
        other.subscribe(f"$queue-out/{name}", qos=1)
        props = dict(other.receive("job").properties.UserProperty)
        expect("attempts" in props, True, "attempts")
        until_empty(server, name)


def extensions(server, name):
    """How often the lease of the only message was extended since it was last handed out."""
    [message] = asked(server, f"/v1/queues/{name}/messages")["messages"]
    steps = [step["step"] for step in asked(server, f"/v1/messages/{message['key']}")["trail"]]
    return steps[::-1].index("leased")


@into(CASES)
def a_session_that_comes_back_receives_again(server, door):
    name, client_id = made(server), f"sleeper-{uuid.uuid4()}"
    sleeper = durable(service(door), V5, client_id)
    sleeper.connect()
    sleeper.subscribe(f"$queue-out/{name}", qos=1)
    sleeper.leave()
    with Client(service(door)) as sender:
        sender.publish(f"$queue-in/{name}", "while you slept", 1)
    expect(counts(server, name), {"waiting": 1, "scheduled": 0, "leased": 0}, "it waits in the queue")
    again = durable(service(door), V5, client_id)
    expect(again.connect()[0], True, "session present")
    again.receive("while you slept")
    until_empty(server, name)
    again.unsubscribe(f"$queue-out/{name}")
    with Client(service(door)) as sender:
        sender.publish(f"$queue-in/{name}", "not for you", 1)
    again.subscribe(f"after/{name}", qos=1)
    again.hears_nothing_before(f"after/{name}", 1)
    expect(counts(server, name)["waiting"], 1, "nobody wants it")
    again.leave()


@into(OWN)
def acknowledged_sends_survive_kill_9(binary, fixture):
    """Clients send and receive while the server is killed; what was acknowledged is there, and done is done."""
    config = fixture.config("queues.toml", more=NARROW)
    with serve(binary, config=config) as server:
        put(server, "jobs", {"lease_ms": 1_000})
        door = Door(server.mqtt).but(user="sender", password="the-token-of-the-sender")
        acknowledged, done = set(), collections.Counter()
        for round in range(3):
            with Client(door, version=(V311, V5)[round % 2]) as sender:
                infos = {}
                for number in range(200):
                    job = f"{round}-{number}"
                    infos[sender.paho.publish("$queue-in/jobs", job, 1 + number % 2).mid] = job
                while len(infos) > 60:
                    _, reason, mid, _ = sender.wait("publish")
                    expect(reason.value, 0, "reason")
                    acknowledged.add(infos.pop(mid))
                server.kill()
                sender.paho.loop_stop()
            server.start()
            server.wait_until_ready()
            receiver = Client(door.but(user="receiver", password="the-token-of-the-receiver"),
                              connect={"ReceiveMaximum": 20})
            receiver.connect()
            receiver.subscribe("$queue-out/jobs", qos=1)
            until("all that was acknowledged comes", lambda: drain(receiver, done) or acknowledged <= set(done))
            until_empty(server, "jobs")
            drain(receiver, done)
            receiver.leave()
        expect({job for job in acknowledged if done[job] != 1}, set(), "jobs that did not come once")


# Rights as `[[service]]` gives them over HTTP, and a rule for everybody.
NARROW = """
[[service]]
name = "sender"
token = "the-token-of-the-sender"
grants = ["send:jobs"]

[[service]]
name = "receiver"
token = "the-token-of-the-receiver"
grants = ["receive:jobs"]

[[acl]]
effect = "permit"
action = "publish"
topics = ["$queue-in/open"]
"""


def drain(receiver, done):
    while not receiver.inbox.empty():
        done[receiver.inbox.get().payload.decode()] += 1
    return False


@into(OWN)
def grants_and_rules_give_rights(binary, fixture):
    with serve(binary, config=fixture.config("narrow.toml", more=NARROW)) as server:
        for name in ("jobs", "open", "other"):
            put(server, name, {})
        door = Door(server.mqtt)
        with Client(door.but(user="sender", password="the-token-of-the-sender")) as sender, \
                Client(door.but(user="receiver", password="the-token-of-the-receiver")) as receiver, \
                Client(door) as anonymous:
            receiver.subscribe("$queue-out/jobs", "$queue-out/other", qos=1, wanted=[1, DENIED])
            sender.subscribe("$queue-out/jobs", qos=1, wanted=[DENIED])
            expect([sender.publish(f"$queue-in/{name}", name, 1) for name in ("jobs", "other")], [0, DENIED], "sender")
            expect(receiver.publish("$queue-in/jobs", "x", 1), DENIED, "receiver")
            receiver.receive("jobs")
            expect([anonymous.publish(f"$queue-in/{name}", name, 1) for name in ("open", "jobs")], [0, DENIED],
                   "a rule")
            anonymous.subscribe("$queue-out/open", qos=1, wanted=[DENIED])
            # Who has no right any more receives no more.
            fixture.config("narrow.toml", more=NARROW.replace("receive:jobs", "receive:other"))
            server.process.send_signal(signal.SIGHUP)
            _, reason, _, _ = receiver.wait("disconnect")
            expect(str(reason), "Not authorized", "DISCONNECT")
