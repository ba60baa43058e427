"""Authentication and rights: passwords, tokens, certificates, rules, and their reload while clients are connected."""

import json
import signal
import socket
import ssl
import tempfile
import time
import uuid

from cases import durable
from client import V311, V5, Client, Door, Wrong, expect
from fixture import SERVICE
from server import serve

DENIED, UNKNOWN = 0x87, 0x92
# The first rule that fits decides. In a table of users, `eve` is only after a reload; her password is `dave`, too.
RULES = """
[[acl]]
effect = "permit"
topics = ["chat/%u/#", "device/%c/#"]

[[acl]]
effect = "deny"
topics = ["chat/#", "device/#"]

[[acl]]
effect = "deny"
action = "publish"
topics = ["news/#"]
role = "viewer"
"""
MORE_RULES = """
[[acl]]
effect = "deny"
topics = ["secret/#"]
"""
EVE = """
[[user]]
name = "eve"
password_hash = "$argon2id$v=19$m=19456,t=2,p=1$CJt3yfrPNZBo81/EHS8ETg$vjEVQU7YS/rhzs0z9ZJeOBpXyxPFPSw8HR0Zxp2pLt0"
role = "viewer"
wallets = []
"""
CAROL = ('name = "carol"', 'name = "caroline"')
CASES, TLS_CASES, OWN = [], [], []


def into(cases):
    return lambda play: cases.append((play.__name__, play)) or play


@into(CASES)
def a_wrong_password_is_refused_in_the_words_of_each_version(server, door):
    for version in (V311, V5):
        for user, password in [("dave", "wrong"), ("dave", ""), ("nobody", "dave"), ("", "dave")]:
            stranger = Client(door.but(user=user, password=password), version=version)
            # paho reads 3.1.1's code 4 as 0x86 and writes both so.
            stranger.connect(wanted="Bad user name or password")
            stranger.leave()
    said = connack(door, b"\x00\x04MQTT\x04\xc2\x00\x0a" + b"\x00\x00" + b"\x00\x04dave" + b"\x00\x05wrong")
    expect(said, b"\x20\x02\x00\x04", "CONNACK of 3.1.1")


def connack(door, connect):
    """Sends a CONNECT by hand, and returns what comes until the server closes."""
    with socket.create_connection((door.host, door.port), timeout=15) as link:
        link.sendall(bytes([0x10, len(connect)]) + connect)
        said = b""
        while piece := link.recv(100):
            said += piece
        return said


@into(CASES)
def tokens_are_passwords_too(server, door):
    token = json.loads(server.request("/v1/login", b'{"user":"carol","password":"carol"}')[1])["token"]
    with Client(door.but(user="carol", password=token)) as carol:
        carol.subscribe("$ledger/accounts/wallet:carol")
    with Client(door.but(user="dev", password=SERVICE), version=V311) as service:
        service.subscribe("$SYS/#")
    forged = token[:-8] + "AAAAAAAA"
    stranger = Client(door.but(user="carol", password=forged))
    stranger.connect(wanted="Bad user name or password")
    stranger.leave()


@into(TLS_CASES)
def a_certificate_names_its_user(server, fixture):
    door = Door(server.mqtts, tls=fixture.context("dave"))
    with Client(door) as dave:
        dave.subscribe("$ledger/accounts/wallet:dave")
        dave.subscribe("$ledger/accounts/wallet:carol", wanted=[DENIED])


@into(TLS_CASES)
def a_certificate_of_nobody_in_the_file_does_not_come_in(server, fixture):
    client = Client(Door(server.mqtts, tls=fixture.context("mallory")))
    client.connect(wanted="Not authorized")
    client.leave()


@into(TLS_CASES)
def a_certificate_of_another_authority_ends_the_handshake(server, fixture):
    shaken_off(server, fixture.context("dave", fixture.stranger))


@into(TLS_CASES)
def without_credentials_nobody_comes_in_over_tls(server, fixture):
    client = Client(Door(server.mqtts, tls=fixture.context()))
    client.connect(wanted="Not authorized")
    client.leave()


def shaken_off(server, context):
    """The server ends the handshake; TLS 1.3 tells a client so when it reads."""
    host, _, port = server.mqtts.rpartition(":")
    try:
        with context.wrap_socket(socket.create_connection((host, int(port)), timeout=15), server_hostname=host) as link:
            link.sendall(b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00")
            heard = link.recv(100)
    except (ssl.SSLError, ConnectionError):
        return
    raise Wrong(f"the handshake went on: {heard!r}")


@into(OWN)
def certificates_can_be_required(binary, fixture):
    config = fixture.config("required.toml", fixture.tls(required=True))
    with serve(binary, config=config, tls=fixture.context()) as server:
        shaken_off(server, fixture.context())
        with Client(Door(server.mqtts, tls=fixture.context("dave"))) as dave:
            dave.subscribe("$ledger/accounts/wallet:dave")


@into(OWN)
def rules_decide_by_user_client_id_and_role(binary, fixture):
    with serve(binary, config=fixture.config("rules.toml", more=RULES)) as server:
        door = Door(server.mqtt)
        name = f"meter-{uuid.uuid4()}"
        with Client(door.but(user="dave", password="dave"), name) as dave, Client(door) as nobody:
            dave.subscribe("chat/dave/#", qos=1)
            dave.subscribe(f"device/{name}/state", qos=1)
            dave.subscribe("news/#", qos=1)
            for closed in ["chat/carol/x", "chat/#", "chat/+/x", "device/another/state", "$queue/chat/#"]:
                dave.subscribe(closed, wanted=[DENIED])
            expect(dave.publish("chat/dave/x", "mine", 1), 0, "to the own chat")
            dave.receive("mine")
            for closed in ["chat/carol/x", "device/another/state", "news/today"]:
                expect(dave.publish(closed, "no", 1), DENIED, f"PUBACK for {closed}")
                # paho ignores PUBREC's reason and continues with PUBREL, which is answered with 0x92 (unknown id).
                expect(dave.publish(closed, "no", 2), UNKNOWN, f"PUBCOMP for {closed}")
            expect(dave.publish("$delayed/0/chat/carol/x", "no", 1), DENIED, "PUBACK for a delayed one")
            # A filter of which a part is denied is granted, and that part is kept back.
            of_dave, of_carol = door.but(user="dave", password="dave"), door.but(user="carol", password="carol")
            with Client(of_dave) as part, Client(of_carol) as carol:
                part.subscribe("#", qos=1)
                expect(carol.publish("chat/carol/x", "hidden", 1), 0, "PUBACK for carol")
                expect(nobody.publish("news/today", "yes", 1), 0, "PUBACK for the anonymous")
                part.receive("yes")
            dave.receive("yes")


@into(OWN)
def a_session_belongs_to_who_made_it(binary, fixture):
    refused = {V311: "Not authorized", V5: "Not authorized"}
    with tempfile.TemporaryDirectory(prefix="tidegate-clients-") as data:
        with serve(binary, data=data) as server:
            door = Door(server.mqtt)
            dave, carol = door.but(user="dave", password="dave"), door.but(user="carol", password="carol")
            for version in (V311, V5):
                owner = durable(dave, version, f"phone-{version}")
                owner.connect()
                owner.subscribe(f"post/{version}", qos=1)
                owner.leave()
            with Client(door, "tablet") as owner, Client(carol) as sender:
                for version in (V311, V5):
                    sender.publish(f"post/{version}", "for dave", 1)
                # Also one that ends with its connection is not taken over.
                stranger = Client(carol, "tablet", clean=False)
                stranger.connect(wanted=refused[V5])
                stranger.leave()
                owner.subscribe("still/here")
            others_get_nothing(door, carol, refused)
            server.kill()
        with serve(binary, data=data) as server:
            door = Door(server.mqtt)
            dave, carol = door.but(user="dave", password="dave"), door.but(user="carol", password="carol")
            others_get_nothing(door, carol, refused)
            for version in (V311, V5):
                owner = durable(dave, version, f"phone-{version}")
                expect(owner.connect()[0], True, "session present")
                owner.receive("for dave")
                owner.leave()


def others_get_nothing(door, carol, refused):
    for version in (V311, V5):
        for other in (carol, door):
            for clean in (False, True):
                stranger = Client(other, f"phone-{version}", version, clean=clean)
                stranger.connect(wanted=refused[version])
                stranger.leave()


@into(OWN)
def a_client_id_can_be_its_users(binary, fixture):
    changes = [("\nclient_ids = []\n", '\nclient_ids = ["%u-*", "kiosk-*"]\n')]
    with serve(binary, config=fixture.config("ids.toml", changes)) as server:
        door = Door(server.mqtt)
        dave, carol = door.but(user="dave", password="dave"), door.but(user="carol", password="carol")
        with Client(dave, "dave-phone"), Client(carol, "kiosk-1"), Client(door, "kiosk-2"), Client(door):
            for other in (carol, door):
                stranger = Client(other, "dave-phone")
                stranger.connect(wanted="Client identifier not valid")
                stranger.leave()


@into(OWN)
def a_reload_changes_rights_and_drops_nobody(binary, fixture):
    config = fixture.config("reload.toml", fixture.tls())
    with serve(binary, config=config, tls=fixture.context()) as server:
        plain, tls = Door(server.mqtt), Door(server.mqtts, tls=fixture.context())
        clients = {
            "anonymous": Client(plain),
            "password": Client(plain.but(user="dave", password="dave")),
            "TLS": Client(tls.but(user="dave", password="dave")),
            "WebSocket": Client(Door(server.http, websocket=True, tls=fixture.context(), user="dave", password="dave")),
            "gone": Client(plain.but(user="carol", password="carol")),
        }
        for client in clients.values():
            client.connect()
            client.subscribe("open/#", qos=1)
        clients["anonymous"].subscribe("secret/before")
        eve = Client(plain.but(user="eve", password="dave"))
        eve.connect(wanted="Bad user name or password")
        eve.leave()

        # A file that is wrong changes nothing.
        fixture.config("reload.toml", fixture.tls(), MORE_RULES + "[[acl]]\neffect = \"perhaps\"\n")
        reload(server, "nothing was reloaded")
        clients["anonymous"].subscribe("secret/still")

        shown = fixture.renew()
        fixture.config("reload.toml", [*fixture.tls(), CAROL], EVE + MORE_RULES)
        reload(server, "reloaded users")
        with Client(plain.but(user="eve", password="dave")) as eve:
            eve.subscribe("secret/after", wanted=[DENIED])
        gone = clients.pop("gone")
        gone.wait("disconnect")
        gone.paho.loop_stop()
        clients["anonymous"].subscribe("secret/after", wanted=[DENIED])
        clients["password"].publish("open/letter", "everybody is here", 1)
        for name, client in clients.items():
            client.receive("everybody is here")
            expect(client.paho.is_connected(), True, f"{name} is connected")
            client.leave()
        host, _, port = server.mqtts.rpartition(":")
        with fixture.context().wrap_socket(socket.create_connection((host, int(port))), server_hostname=host) as link:
            expect(link.getpeercert(binary_form=True) == shown, True, "the new certificate is shown")


def reload(server, wanted):
    """Sends SIGHUP and waits until the log says what became of it."""
    before = server.said().count(wanted)
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 15
    while server.said().count(wanted) == before:
        if time.monotonic() > deadline:
            raise Wrong(f"the log does not say {wanted!r}:\n{server.said()}")
        time.sleep(0.01)


@into(CASES)
def a_page_of_another_origin_is_not_let_in(server, door):
    own = f"http://{server.http}"
    origins = [(own, 101), (None, 101), ("https://evil.example", 403), ("null", 403), (f"{own}.evil.example", 403)]
    for origin, wanted in origins:
        expect(upgrade(server, {"Origin": origin} if origin else {}), wanted, f"a page of {origin}")
    expect(upgrade(server, {}, protocol="chat") in (400, 426), True, "another protocol than mqtt")


def upgrade(server, headers, protocol="mqtt"):
    """Asks for a WebSocket by hand and returns the status."""
    asked = {"Host": server.http, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": protocol, **headers}
    host, _, port = server.http.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=15) as link:
        headers = "".join(f"{name}: {value}\r\n" for name, value in asked.items())
        link.sendall(("GET /mqtt HTTP/1.1\r\n" + headers + "\r\n").encode())
        return int(link.recv(100).split(b" ")[1])
