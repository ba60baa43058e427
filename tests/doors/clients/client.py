"""paho-mqtt as a person would use it in a script: connect, do, wait for what must come.

Every wait is for a condition and has a bound; what did not come is said with what did.
"""

import dataclasses
import queue
import ssl
import traceback

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


@dataclasses.dataclass(frozen=True)
class Door:
    """Where a broker is, how to talk to it, and who we are unless a case says otherwise."""

    address: str
    websocket: bool = False
    tls: ssl.SSLContext | None = None
    user: str | None = None
    password: str | None = None

    def __post_init__(self):
        host, _, port = self.address.rpartition(":")
        object.__setattr__(self, "host", host)
        object.__setattr__(self, "port", int(port))

    def but(self, **changes):
        return dataclasses.replace(self, **changes)


class Client:
    """One client of one version. Leaves with DISCONNECT when its `with` block ends."""

    def __init__(self, door, client_id="", version=V5, clean=True, expiry_s=0, will=None, keep_alive_s=60,
                 connect=None):
        self.door, self.version, websocket = door, version, door.websocket
        arguments = {"clean_session": clean} if version == V311 else {}
        self.paho = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id, protocol=version,
                                transport="websockets" if websocket else "tcp", **arguments)
        self.inbox, self.events = queue.Queue(), queue.Queue()
        self.paho.on_message = lambda _, __, message: self.inbox.put(message)
        self.paho.on_connect = lambda _, __, flags, reason, props: self.events.put(("connect", reason, flags, props))
        self.paho.on_disconnect = lambda _, __, flags, reason, props: self.events.put(
            ("disconnect", reason, flags, props))
        self.paho.on_subscribe = lambda _, __, mid, reasons, props: self.events.put(("subscribe", reasons, mid, props))
        self.paho.on_unsubscribe = lambda _, __, mid, reasons, props: self.events.put(
            ("unsubscribe", reasons, mid, props))
        self.paho.on_publish = lambda _, __, mid, reason, props: self.events.put(("publish", reason, mid, props))
        if websocket:
            self.paho.ws_set_options(path="/mqtt")
        if door.user is not None:
            self.paho.username_pw_set(door.user, door.password)
        if door.tls:
            self.paho.tls_set_context(door.tls)
        if will:
            self.paho.will_set(**will)
        self.keep_alive_s = keep_alive_s
        self.options = {} if version == V311 else {
            "clean_start": clean,
            "properties": properties("CONNECT", SessionExpiryInterval=expiry_s, **(connect or {})),
        }

    def __enter__(self):
        self.present, _ = self.connect()
        return self

    def __exit__(self, *_):
        self.leave()

    def connect(self, wanted="Success"):
        """Connects and returns CONNACK's (session present, properties)."""
        self.paho.connect(self.door.host, self.door.port, self.keep_alive_s, **self.options)
        self.paho.loop_start()
        try:
            _, reason, flags, props = self.wait("connect")
            expect(str(reason), wanted, "CONNACK")
        except Wrong:
            # Or it tries again for ever.
            self.paho.loop_stop()
            raise
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


def run(label, case, *arguments):
    """Runs a case, says how it went, and returns whether it failed."""
    try:
        case(*arguments)
        print(f"{label}: ok", flush=True)
        return False
    except (Exception, SystemExit) as error:
        # One piece, because cases run beside each other.
        trace = "" if isinstance(error, Wrong) else f"\n{traceback.format_exc()}"
        print(f"{label}: FAILED: {error}{trace}", flush=True)
        return True
