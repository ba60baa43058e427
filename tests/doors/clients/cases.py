"""What any MQTT client may expect of any MQTT broker, with paho-mqtt, in both versions:  cases.py HOST:PORT [NAME...]

Run by itself it tests whatever listens there, another broker for example, which tells whether a case is right.
"""

import sys
import uuid

from client import FOREVER, SECONDS_MAX, V311, V5, Client, Door, expect, properties, run
from paho.mqtt.client import MQTTMessageInfo

CASES = []
VERSIONS = {V311: "3.1.1", V5: "5"}


def case(*versions):
    """Registers a case for these versions of MQTT; it gets a broker, a version and a topic of its own."""
    return lambda run: CASES.append((run.__name__, versions, run)) or run


both = case(V311, V5)
five = case(V5)


def durable(broker, version, client_id, **more):
    """A client whose session outlives its connection."""
    return Client(broker, client_id, version, clean=False, expiry_s=FOREVER, **more)


@both
def every_quality_of_service_meets_every_other(broker, version, topic):
    with Client(broker, version=version) as sender, Client(broker, version=version) as receiver:
        for granted in (0, 1, 2):
            receiver.subscribe(f"{topic}/{granted}", qos=granted)
        for sent in (0, 1, 2):
            for granted in (0, 1, 2):
                sender.publish(f"{topic}/{granted}", f"{sent} to {granted}", sent)
                message = receiver.receive(f"{sent} to {granted}")
                flags = (message.qos, message.retain, message.dup)
                expect(flags, (min(sent, granted), False, False), "QoS, retain, DUP")


@both
def messages_come_in_order(broker, version, topic):
    with Client(broker, version=version) as sender, Client(broker, version=version) as receiver:
        for qos in (0, 1, 2):
            receiver.subscribe(f"{topic}/{qos}", qos=qos)
            payloads = [f"{number}" for number in range(300)]
            for payload in payloads:
                sender.paho.publish(f"{topic}/{qos}", payload, qos)
            receiver.receive(*payloads)


@both
def wildcards_match_as_the_standard_says(broker, version, topic):
    with Client(broker, version=version) as client:
        client.subscribe(f"{topic}/+/b/#", qos=1)
        for name in ("a/b", "a/b/c/d", "/b"):
            client.publish(f"{topic}/{name}", name, 1)
            client.receive(name)
        for name in ("a/c", "a/a/b", "b"):
            client.publish(f"{topic}/{name}", name, 1)
        client.hears_nothing_before(f"{topic}/x/b", 1)
        client.unsubscribe(f"{topic}/+/b/#")
        client.subscribe(f"{topic}/last", qos=1)
        client.publish(f"{topic}/a/b", "unsubscribed", 1)
        client.hears_nothing_before(f"{topic}/last", 1)


@both
def retained_messages_wait_for_subscribers(broker, version, topic):
    with Client(broker, version=version) as sender:
        sender.publish(f"{topic}/state", "on", 1, retain=True)
        sender.publish(f"{topic}/gone", "soon", 1, retain=True)
        sender.publish(f"{topic}/gone", "", 1, retain=True)
        with Client(broker, version=version) as late:
            late.subscribe(f"{topic}/#", qos=1)
            expect(late.receive("on").retain, True, "retain flag for a new subscription")
            sender.publish(f"{topic}/state", "off", 1, retain=True)
            expect(late.receive("off").retain, False, "retain flag for an old subscription")
            late.hears_nothing_before(f"{topic}/gone", 1)
        sender.publish(f"{topic}/state", "", 1, retain=True)


@both
def a_will_is_sent_for_who_vanishes_not_for_who_leaves(broker, version, topic):
    with Client(broker, version=version) as watcher:
        watcher.subscribe(f"{topic}/#", qos=1)
        for name, end in (("left", Client.leave), ("vanished", Client.vanish)):
            mortal = Client(broker, version=version, will={"topic": f"{topic}/will", "payload": name, "qos": 1})
            mortal.connect()
            end(mortal)
        watcher.receive("vanished")


@both
def a_session_keeps_what_comes_while_its_client_sleeps(broker, version, topic):
    name = f"sleeper-{uuid.uuid4()}"
    sleeper = durable(broker, version, name)
    expect(sleeper.connect()[0], False, "session present, the first time")
    sleeper.subscribe(f"{topic}/0", qos=0)
    sleeper.subscribe(f"{topic}/1", qos=1)
    sleeper.subscribe(f"{topic}/2", qos=2)
    sleeper.leave()
    with Client(broker, version=version) as sender:
        for number in range(20):
            sender.publish(f"{topic}/{1 + number % 2}", f"{number}", 1 + number % 2)
    again = durable(broker, version, name)
    expect(again.connect()[0], True, "session present, the second time")
    # Order is promised per topic and quality of service, not between them.
    heard = [again.inbox.get(timeout=SECONDS_MAX) for _ in range(20)]
    for qos in (1, 2):
        payloads = [message.payload.decode() for message in heard if message.topic == f"{topic}/{qos}"]
        expect(payloads, [f"{number}" for number in range(qos - 1, 20, 2)], f"QoS {qos} while asleep")
    again.hears_nothing_before(f"{topic}/1", 1)
    again.leave()
    with Client(broker, name, version) as clean:
        expect(clean.present, False, "session present for a clean start")
    last = durable(broker, version, name)
    expect(last.connect()[0], False, "session present after a clean start")
    last.leave(props=properties("DISCONNECT", SessionExpiryInterval=0)) if version == V5 else last.leave()


@both
def the_newer_connection_takes_the_session_over(broker, version, topic):
    name = f"twin-{uuid.uuid4()}"
    older = durable(broker, version, name)
    older.paho.reconnect_delay_set(60, 60)
    older.connect()
    older.subscribe(topic, qos=1)
    newer = durable(broker, version, name)
    expect(newer.connect()[0], True, "session present")
    _, reason, flags, _ = older.wait("disconnect")
    if version == V5:
        expect((reason.value, flags.is_disconnect_packet_from_server), (0x8E, True), "DISCONNECT of the older")
    older.paho.loop_stop()
    newer.publish(topic, "still subscribed", 1)
    newer.receive("still subscribed")
    newer.leave()


@both
def large_messages_come_whole(broker, version, topic):
    payload = "tide" * 50_000
    with Client(broker, version=version) as client:
        client.subscribe(topic, qos=2)
        for qos in (0, 1, 2):
            client.publish(topic, payload, qos)
            client.receive(payload)


@both
def an_empty_client_id_gets_one(broker, version, topic):
    with Client(broker, "", version) as one, Client(broker, "", version) as other:
        one.subscribe(topic)
        other.publish(topic, "we are two")
        one.receive("we are two")


@five
def an_assigned_client_id_is_told(broker, version, topic):
    client = Client(broker, "", version)
    _, told = client.connect()
    expect(bool(getattr(told, "AssignedClientIdentifier", "")), True, "assigned client identifier")
    client.leave()


@five
def a_shared_subscription_gives_each_message_to_one(broker, version, topic):
    group = f"$share/workers/{topic}/#"
    with Client(broker) as one, Client(broker) as other, Client(broker) as sender:
        for member in (one, other):
            member.subscribe(group, qos=1)
        payloads = [f"{number}" for number in range(40)]
        for payload in payloads:
            sender.publish(f"{topic}/{payload}", payload, 1)
        got = [[], []]
        while len(got[0]) + len(got[1]) < len(payloads):
            for member, heard in zip((one, other), got):
                while not member.inbox.empty():
                    heard.append(member.inbox.get().payload.decode())
        expect(sorted(got[0] + got[1], key=int), payloads, "what both heard together")
        expect(bool(got[0]) and bool(got[1]), True, "both heard some")


@five
def subscription_options_are_obeyed(broker, version, topic):
    with Client(broker) as client, Client(broker) as other:
        other.publish(f"{topic}/kept", "kept", 1, retain=True)
        client.subscribe(f"{topic}/own", qos=1, noLocal=True)
        client.publish(f"{topic}/own", "to myself", 1)
        other.publish(f"{topic}/own", "from another", 1)
        client.receive("from another")
        client.subscribe(f"{topic}/kept", qos=1, retainHandling=2)
        client.subscribe(f"{topic}/kept", qos=1, retainHandling=1)
        other.publish(f"{topic}/kept", "not as published", 1, retain=True)
        expect(client.receive("not as published").retain, False, "retain flag")
        client.subscribe(f"{topic}/kept", qos=1, retainHandling=2, retainAsPublished=True)
        other.publish(f"{topic}/kept", "as published", 1, retain=True)
        expect(client.receive("as published").retain, True, "retain flag as published")
        client.subscribe(f"{topic}/kept", qos=1, retainHandling=0)
        expect(client.receive("as published").retain, True, "sent again")
        other.publish(f"{topic}/kept", "", 1, retain=True)


@five
def properties_travel_with_the_message(broker, version, topic):
    with Client(broker) as client:
        client.subscribe(topic, qos=1, subscription_id=7)
        client.publish(topic, "{}", 1, ContentType="application/json", ResponseTopic="answers/7",
                       CorrelationData=b"\0\1\2", PayloadFormatIndicator=1, MessageExpiryInterval=60,
                       UserProperty=[("a", "1"), ("a", "2"), ("b", "3")])
        got = client.receive("{}").properties
        told = (got.ContentType, got.ResponseTopic, got.CorrelationData, got.PayloadFormatIndicator, got.UserProperty)
        users = [("a", "1"), ("a", "2"), ("b", "3")]
        expect(told, ("application/json", "answers/7", b"\0\1\2", 1, users), "properties")
        expect(got.SubscriptionIdentifier, [7], "subscription identifier")
        expect(50 <= got.MessageExpiryInterval <= 60, True, "message expiry counts down")


@five
def a_topic_alias_stands_for_its_topic(broker, version, topic):
    with Client(broker) as sender, Client(broker, connect={"TopicAliasMaximum": 4}) as receiver:
        receiver.subscribe(topic, qos=1)
        sender.publish(topic, "named", 1, TopicAlias=3)
        # paho refuses an empty topic, so the alias goes through its packet maker.
        alias = properties("PUBLISH", TopicAlias=3)
        sender.paho._send_publish(1, b"", b"aliased", properties=alias, info=MQTTMessageInfo(1))
        receiver.receive("named", "aliased")


@five
def a_message_expires_while_it_waits(broker, version, topic):
    name = f"late-{uuid.uuid4()}"
    sleeper = durable(broker, V5, name)
    sleeper.connect()
    sleeper.subscribe(topic, qos=1)
    sleeper.leave()
    with Client(broker) as sender, Client(broker, will={"topic": f"{topic}/tick", "payload": "two seconds"}) as clock:
        sender.publish(topic, "expires", 1, MessageExpiryInterval=1)
        sender.publish(topic, "stays", 1)
        wait_for_will_delay(broker, topic, 2)
    again = durable(broker, V5, name)
    again.connect()
    again.receive("stays")
    again.leave(props=properties("DISCONNECT", SessionExpiryInterval=0))


@five
def a_session_ends_at_its_expiry(broker, version, topic):
    name = f"brief-{uuid.uuid4()}"
    brief = Client(broker, name, clean=False, expiry_s=1)
    brief.connect()
    brief.leave()
    wait_for_will_delay(broker, topic, 3)
    again = Client(broker, name, clean=False)
    expect(again.connect()[0], False, "session present after its expiry")
    again.leave()


def wait_for_will_delay(broker, topic, seconds):
    """Lets the broker's own clock pass: a will that is delayed so long is sent after it."""
    delay = properties("WILLMESSAGE", WillDelayInterval=seconds)
    delayed = {"topic": f"{topic}/clock", "payload": "rings", "properties": delay}
    with Client(broker) as watcher:
        watcher.subscribe(f"{topic}/clock")
        mortal = Client(broker, f"clock-{uuid.uuid4()}", clean=False, expiry_s=seconds + 60, will=delayed)
        mortal.connect()
        mortal.vanish()
        watcher.receive("rings")


@five
def a_will_waits_for_its_delay_and_a_return_takes_it_back(broker, version, topic):
    name = f"tunnel-{uuid.uuid4()}"
    will = {"topic": f"{topic}/will", "payload": "gone", "properties": properties("WILLMESSAGE", WillDelayInterval=2)}
    with Client(broker) as watcher:
        watcher.subscribe(f"{topic}/#")
        first = Client(broker, name, clean=False, expiry_s=60, will=will)
        first.connect()
        first.vanish()
        back = Client(broker, name, clean=False, expiry_s=60)
        expect(back.connect()[0], True, "session present")
        wait_for_will_delay(broker, topic, 3)
        watcher.receive("rings")
        back.leave(props=properties("DISCONNECT", SessionExpiryInterval=0))


@five
def a_receiver_gets_no_more_than_its_maximum_at_once(broker, version, topic):
    with Client(broker) as sender, Client(broker, connect={"ReceiveMaximum": 1}) as receiver:
        receiver.subscribe(topic, qos=2)
        payloads = [f"{number}" for number in range(50)]
        for payload in payloads:
            sender.publish(topic, payload, 2)
        receiver.receive(*payloads)


@five
def no_packet_is_larger_than_the_client_takes(broker, version, topic):
    with Client(broker) as sender, Client(broker, connect={"MaximumPacketSize": 1_000}) as receiver:
        receiver.subscribe(topic, qos=1)
        sender.publish(topic, "x" * 2_000, 1)
        sender.publish(topic, "small", 1)
        receiver.receive("small")


@five
def a_client_may_send_its_will_when_it_leaves(broker, version, topic):
    from paho.mqtt.reasoncodes import ReasonCode
    from paho.mqtt.packettypes import PacketTypes

    with Client(broker) as watcher:
        watcher.subscribe(topic)
        leaver = Client(broker, will={"topic": topic, "payload": "on purpose"})
        leaver.connect()
        leaver.leave(ReasonCode(PacketTypes.DISCONNECT, identifier=0x04))
        watcher.receive("on purpose")


@five
def enhanced_authentication_is_refused(broker, version, topic):
    client = Client(broker, connect={"AuthenticationMethod": "SCRAM-SHA-256", "AuthenticationData": b"x"})
    client.connect(wanted="Bad authentication method")
    client.leave()


def run_all(broker, names=(), over="TCP"):
    """Runs the cases, or those of these names, and returns how many failed."""
    chosen = [(name, version, play) for name, versions, play in CASES
              if not names or name in names for version in versions]
    return sum(
        run(f"paho over {over}, {VERSIONS[version]}: {name}", play, broker, version, f"cases/{uuid.uuid4()}")
        for name, version, play in chosen
    )


if __name__ == "__main__":
    sys.exit(min(1, run_all(Door(sys.argv[1]), sys.argv[2:])))
