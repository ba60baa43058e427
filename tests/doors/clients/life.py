"""A node's life: limits at its doors, clients sent away, and `kill -9`."""

import subprocess
import tempfile
import time
import uuid

from cases import durable
from client import V311, V5, Client, Door, Wrong, expect
from fixture import SERVICE
from server import serve

USE_ANOTHER_SERVER = 0x9C
CASES = []


def case(play):
    """Registers a case; it gets the server's binary and the fixture."""
    CASES.append((play.__name__, play))
    return play


@case
def who_is_one_too_many_is_told_so(binary, fixture):
    limits = [("\nconnections_max = 2097152\n", "\nconnections_max = 3\n")]
    addresses = [("\nconnections_per_address_max = 0\n", "\nconnections_per_address_max = 3\n")]
    plain = "Range: 0 to 16777216.\nconnections_max = "
    listener = [(plain + "0\n", plain + "3\n")]
    for name, changes in [("all", limits), ("address", addresses), ("listener", listener)]:
        with serve(binary, config=fixture.config(f"limit-{name}.toml", changes)) as server:
            door = Door(server.mqtt)
            clients = [Client(door) for _ in range(3)]
            for client in clients:
                client.connect()
            for version, wanted in [(V5, "Quota exceeded"), (V311, "Server unavailable")]:
                late = Client(door, version=version)
                late.connect(wanted=wanted)
                late.leave()
            clients.pop().leave()
            # The place is free when the server has seen the end.
            deadline = time.monotonic() + 15
            while True:
                try:
                    with Client(door):
                        break
                except Wrong:
                    expect(time.monotonic() < deadline, True, f"a place is free again ({name})")
            for client in clients:
                client.subscribe("still/here")
                client.leave()


@case
def a_drain_sends_everybody_elsewhere_at_its_rate(binary, fixture):
    elsewhere = [('# server_reference = "mqtt2.example.org:1883"', 'server_reference = "mqtt2.example.org:1883"')]
    with serve(binary, config=fixture.config("drain.toml", elsewhere)) as server:
        door = Door(server.mqtt)
        doors = [door, door.but(), Door(server.http, websocket=True)] * 4
        clients = [Client(one, version=V5 if number % 4 else V311) for number, one in enumerate(doors)]
        for client in clients:
            # paho comes back by itself, which is what a drain is for; not here.
            client.paho.reconnect_delay_set(60, 60)
            client.connect()
        sleeper = durable(door, V5, "sleeper", will={"topic": "sleeper/gone", "payload": "will", "qos": 1})
        sleeper.paho.reconnect_delay_set(60, 60)
        sleeper.connect()
        began = time.monotonic()
        drain = [binary, "drain", "--rate", "10", "--url", f"http://{server.http}", "--token", SERVICE]
        told = subprocess.run(drain, capture_output=True, text=True, timeout=60)
        is_drained = (told.returncode, "nobody is left" in told.stdout)
        expect(is_drained, (0, True), f"tidegate drain: {told.stdout}{told.stderr}")
        expect(time.monotonic() - began > 0.8, True, "thirteen clients at ten a second take more than a second")
        for client in [*clients, sleeper]:
            _, reason, flags, props = client.wait("disconnect")
            if client.version == V5:
                said = (reason.value, props.ServerReference)
                expect(said, (USE_ANOTHER_SERVER, "mqtt2.example.org:1883"), "DISCONNECT")
            client.paho.loop_stop()
        late = Client(door)
        _, props = late.connect(wanted="Use another server")
        expect(props.ServerReference, "mqtt2.example.org:1883", "CONNACK's server reference")
        late.leave()
        expect(server.request("/healthz")[0], 200, "HTTP stays")
        wrong = subprocess.run(drain[:-1] + ["no-such-token"], capture_output=True, text=True, timeout=60)
        expect(wrong.returncode != 0 and "401" in wrong.stderr, True, f"a drain without the right: {wrong.stderr}")


@case
def sigterm_sends_everybody_away_first(binary, fixture):
    with serve(binary) as server:
        clients = [Client(Door(server.mqtt)) for _ in range(5)]
        for client in clients:
            client.paho.reconnect_delay_set(60, 60)
            client.connect()
        server.stop()
        for client in clients:
            _, reason, flags, _ = client.wait("disconnect")
            expect((reason.value, flags.is_disconnect_packet_from_server), (USE_ANOTHER_SERVER, True), "DISCONNECT")
            client.paho.loop_stop()


@case
def kill_9_takes_nothing_that_was_acknowledged(binary, fixture):
    topic = f"night/{uuid.uuid4()}"
    with tempfile.TemporaryDirectory(prefix="tidegate-clients-") as data:
        with serve(binary, data=data) as server:
            door = Door(server.mqtt)
            for version in (V311, V5):
                sleeper = durable(door, version, f"sleeper-{version}")
                sleeper.connect()
                sleeper.subscribe(f"{topic}/{version}/+", qos=2)
                sleeper.leave()
            will = {"topic": f"{topic}/will", "payload": "the server died", "qos": 1, "retain": True}
            mortal = durable(door, V5, "mortal", will=will)
            mortal.paho.reconnect_delay_set(60, 60)
            mortal.connect()
            with Client(door) as sender:
                sender.publish(f"{topic}/state", "on", 0, retain=True)
                sender.publish(f"{topic}/state", "off", 1, retain=True)
                sender.publish(f"{topic}/cleared", "soon", 2, retain=True)
                sender.publish(f"{topic}/cleared", "", 2, retain=True)
                for version in (V311, V5):
                    for number in range(100):
                        sender.publish(f"{topic}/{version}/{1 + number % 2}", f"{number}", 1 + number % 2)
                server.kill()
            mortal.paho.loop_stop()
        with serve(binary, data=data) as server:
            door = Door(server.mqtt)
            for version in (V311, V5):
                sleeper = durable(door, version, f"sleeper-{version}")
                expect(sleeper.connect()[0], True, "session present")
                heard = [sleeper.inbox.get(timeout=15) for _ in range(100)]
                for qos in (1, 2):
                    payloads = [message.payload.decode() for message in heard
                                if message.topic == f"{topic}/{version}/{qos}"]
                    expect(payloads, [f"{number}" for number in range(qos - 1, 100, 2)], f"QoS {qos}")
                sleeper.hears_nothing_before(f"{topic}/{version}/1", 1)
                sleeper.leave()
            with Client(door) as late:
                late.subscribe(f"{topic}/state", f"{topic}/cleared", qos=1)
                expect(late.receive("off").retain, True, "retain flag")
                late.hears_nothing_before(f"{topic}/cleared", 1)
                late.subscribe(f"{topic}/will", qos=1)
                late.receive("the server died")
