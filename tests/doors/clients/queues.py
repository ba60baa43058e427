"""Topics with a habit that users of EMQX know: `$delayed/SECONDS/TOPIC` and `$queue/FILTER`."""

import time
import uuid

from client import V311, V5, Client, expect
from cases import durable

CASES = []


def case(play):
    """Registers a case; it gets the server and its door for MQTT."""
    CASES.append((play.__name__, play))
    return play


@case
def a_delayed_message_comes_late_and_once(server, door):
    topic = f"later/{uuid.uuid4()}"
    for version in (V311, V5):
        with Client(door, version=version) as client:
            client.subscribe(f"{topic}/#", qos=2)
            for qos in (0, 1, 2):
                began = time.monotonic()
                client.publish(f"$delayed/1/{topic}", f"{qos}", qos)
                client.publish(f"{topic}/now", "at once", qos)
                client.receive("at once")
                expect(client.receive(f"{qos}").topic, topic, "topic")
                waited = time.monotonic() - began
                expect(0.9 < waited < 5, True, f"it came after {waited:.2f} s, which is a second")
            client.hears_nothing_before(f"{topic}/last", 1)


@case
def a_delayed_message_finds_who_sleeps(server, door):
    topic, name = f"later/{uuid.uuid4()}", f"sleeper-{uuid.uuid4()}"
    sleeper = durable(door, V5, name)
    sleeper.connect()
    sleeper.subscribe(f"{topic}/#", qos=1)
    sleeper.leave()
    with Client(door) as sender:
        sender.subscribe(f"{topic}/#")
        sender.publish(f"$delayed/1/{topic}/x", "wake up", 1)
        sender.receive("wake up")
    again = durable(door, V5, name)
    again.connect()
    again.receive("wake up")
    again.hears_nothing_before(f"{topic}/last", 1)
    again.leave()


@case
def each_message_of_a_queue_goes_to_one(server, door):
    topic = f"work/{uuid.uuid4()}"
    for version in (V311, V5):
        with Client(door, version=version) as one, Client(door, version=version) as other, Client(door) as sender:
            for worker in (one, other):
                worker.subscribe(f"$queue/{topic}/#", qos=1)
            jobs = [f"{number}" for number in range(40)]
            for job in jobs:
                sender.publish(f"{topic}/{job}", job, 1)
            got = []
            deadline = time.monotonic() + 15
            while len(got) < len(jobs) and time.monotonic() < deadline:
                got += [worker.inbox.get().payload.decode() for worker in (one, other) if not worker.inbox.empty()]
            expect(sorted(got, key=int), jobs, "what both got together")
