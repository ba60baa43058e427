"""paho-mqtt as a person would use it in a script: connect, do, wait for what must come.

Every wait is for a condition and has a bound; what did not come is said with what did.
"""

import queue
import ssl

from paho.mqtt import client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

SECONDS_MAX = 15
V311, V5 = mqtt.MQTTv311, mqtt.MQTTv5
FOREVER = 0xFFFFFFFF


class Wrong(AssertionError):
    """A promise was not kept."""


def expect(found, wanted, what):
    if found != wanted:
        raise Wrong(f"{what}: {found!r}, not {wanted!r}")


def properties(packet, **values):
    """MQTT 5 properties of a packet, by paho's names: properties("PUBLISH", MessageExpiryInterval=1)."""
    made = Properties(getattr(PacketTypes, packet))
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Client:
    """One client of one version. Leaves with DISCONNECT when its `with` block ends."""

    def __init__(self, broker, client_id="", version=V5, user=None, password=None, clean=True, expiry_s=0, will=None,
                 tls=None, websocket=False, keep_alive_s=60, connect=None):
        self.broker, self.version, self.websocket = broker, version, websocket
        arguments = {"clean_session": clean} if version == V311 else {}
        self.paho = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id, protocol=version,
                                transport="websockets" if websocket else "tcp", **arguments)
        self.inbox, self.events = queue.Queue(), queue.Queue()
        self.paho.on_message = lambda _, __, message: self.inbox.put(message)
        self.paho.on_connect = lambda _, __, flags, reason, props: self.events.put(("connect", reason, flags, props))
        self.paho.on_disconnect = lambda _, __, flags, reason, props: self.events.put(("disconnect", reason, flags, props))
        self.paho.on_subscribe = lambda _, __, mid, reasons, props: self.events.put(("subscribe", reasons, mid, props))
        self.paho.on_unsubscribe = lambda _, __, mid, reasons, props: self.events.put(("unsubscribe", reasons, mid, props))
        self.paho.on_publish = lambda _, __, mid, reason, props: self.events.put(("publish", reason, mid, props))
        if websocket:
            self.paho.ws_set_options(path="/mqtt")
        if user is not None:
            self.paho.username_pw_set(user, password)
        if tls:
            self.paho.tls_set_context(tls)
        if will:
            self.paho.will_set(**will)
        self.keep_alive_s = keep_alive_s
        self.options = {} if version == V311 else {
            "clean_start": clean,
            "properties": properties("CONNECT", SessionExpiryInterval=expiry_s, **(connect or {})),
        }

    def __enter__(self):
        self.connect()
        return self

    def __exit__(self, *_):
        self.leave()

    def connect(self, wanted="Success"):
        """Connects and returns CONNACK's (session present, properties)."""
        host, port = self.broker
        self.paho.connect(host, port, self.keep_alive_s, **self.options)
        self.paho.loop_start()
        _, reason, flags, props = self.wait("connect")
        expect(str(reason), wanted, "CONNACK")
        return flags.session_present, props

    def leave(self, reason=None, props=None):
        if self.version == V5:
            self.paho.disconnect(reason, props)
        else:
            self.paho.disconnect()
        self.paho.loop_stop()

    def vanish(self):
        """Closes the socket without DISCONNECT, as a train does in a tunnel."""
        self.paho.loop_stop()
        self.paho._sock_close()

    def wait(self, kind):
        """The next event of this kind; others before it are passed over."""
        while True:
            try:
                event = self.events.get(timeout=SECONDS_MAX)
            except queue.Empty:
                raise Wrong(f"no {kind} within {SECONDS_MAX} s") from None
            if event[0] == kind:
                return event

    def subscribe(self, *filters, qos=0, subscription_id=None, wanted=None, **options):
        """Subscribes and returns the reasons of SUBACK, which must all be grants unless `wanted` says otherwise."""
        if self.version == V5:
            asked = [(name, SubscribeOptions(qos=qos, **options)) for name in filters]
            props = properties("SUBSCRIBE", SubscriptionIdentifier=subscription_id) if subscription_id else None
            self.paho.subscribe(asked, properties=props)
        else:
            self.paho.subscribe([(name, qos) for name in filters])
        reasons = [reason.value for reason in self.wait("subscribe")[1]]
        expect(reasons, wanted or [qos] * len(filters), f"SUBACK for {filters}")

    def unsubscribe(self, *filters):
        self.paho.unsubscribe(list(filters))
        self.wait("unsubscribe")

    def publish(self, topic, payload="", qos=0, retain=False, **props):
        """Publishes and waits until that is done: sent for QoS 0, acknowledged otherwise. Returns the reason."""
        made = properties("PUBLISH", **props) if props else None
        info = self.paho.publish(topic, payload, qos, retain, properties=made)
        while True:
            _, reason, mid, _ = self.wait("publish")
            if mid == info.mid:
                return reason.value

    def receive(self, *payloads):
        """The next messages, whose payloads must be these, in order."""
        messages = []
        for payload in payloads:
            try:
                message = self.inbox.get(timeout=SECONDS_MAX)
            except queue.Empty:
                raise Wrong(f"{payload!r} did not come within {SECONDS_MAX} s") from None
            expect(message.payload.decode(), payload, f"message on {message.topic}")
            messages.append(message)
        return messages[0] if len(messages) == 1 else messages

    def hears_nothing_before(self, topic, qos=0):
        """Publishes a last word to a topic that we hear, and it must be the next thing heard."""
        self.publish(topic, "the last word", qos)
        self.receive("the last word")


def tls_context(authority, certificate=None):
    """A context that trusts `authority` (a trustme CA) and shows `certificate`, if there is one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    if certificate:
        certificate.configure_cert(context)
    return context
