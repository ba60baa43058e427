"""A real HAProxy before the doors: who is behind it, as the security log and fail2ban see it.

HAProxy forwards to HTTP and to MQTT, in both versions of the PROXY protocol. Its clients come from addresses of their
own, all of this machine's loopback network.
"""

import contextlib
import http.client
import pathlib
import re
import socket
import subprocess
import tempfile

from server import Server, free_address

CONFIG = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 30s
    timeout server 30s
"""
# A client's address, the version, and the door, for each way through HAProxy.
WAYS = [("127.0.0.21", "send-proxy", "http"), ("127.0.0.22", "send-proxy-v2", "http"),
        ("127.0.0.23", "send-proxy", "mqtt"), ("127.0.0.24", "send-proxy-v2", "mqtt")]


@contextlib.contextmanager
def haproxy(folder, targets):
    """Runs while it lasts; gives an address for each way."""
    addresses = [free_address() for _ in WAYS]
    text = CONFIG
    for (_, version, door), address in zip(WAYS, addresses):
        # HAProxy itself comes from another address than its clients, which is the one that is trusted.
        text += f"listen {door}-{version}\n    bind {address}\n"
        text += f"    server tidegate {targets[door]} {version} source 127.0.0.99\n"
    config = folder / "haproxy.cfg"
    config.write_text(text)
    process = subprocess.Popen(["haproxy", "-db", "-q", "-f", str(config)])
    try:
        yield addresses
    finally:
        process.terminate()
        process.wait(timeout=30)


def refused(door, address, client):
    """Shows bad credentials from `client`, and gives what is answered."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=30, source_address=(client, 0)) as stream:
        if door == "http":
            stream.sendall(b"GET /v1/audit HTTP/1.1\r\nhost: x\r\nauthorization: Bearer no-such-token\r\n"
                           b"connection: close\r\n\r\n")
            answer = http.client.HTTPResponse(stream)
            answer.begin()
            return answer.status == 401
        # CONNECT of MQTT 3.1.1 as `dave` with a wrong password; the answer is CONNACK 5 or 4.
        body = b"\0\x04MQTT\x04\xc2\0\x3c\0\x01c\0\x04dave\0\x05wrong"
        stream.sendall(bytes([0x10, len(body)]) + body)
        answer = stream.recv(4)
        return answer[:3] == b"\x20\x02\x00" and answer[3] in (4, 5)


def without_section(text, name):
    return re.sub(rf"^\[{name}\]\n(?:[^\[\n].*\n)*", "", text, flags=re.MULTILINE)


def check(binary, root, case, wait_for, addresses):
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("w+") as log:
        folder = pathlib.Path(folder)
        config = folder / "tidegate.toml"
        proxy = '\n[proxy]\ntrusted = ["127.0.0.99"]\nhttp = "either"\nmqtt = "either"\n\n'
        config.write_text(without_section((root / "config/dev.toml").read_text(), "proxy") + proxy)
        server = Server(binary, str(folder / "data"), log, config=str(config))
        server.wait_until_ready()
        ok = True
        with haproxy(folder, {"http": server.http, "mqtt": server.mqtt}) as ways:
            for (client, version, door), address in zip(WAYS, ways):
                wait_for("HAProxy listens", lambda: listens(address))
                ok &= case(f"{door} answers through {version}", refused(door, address, client))
                line = re.compile(rf"refused address={client} door=\"{door}\"")
                wait_for(f"the log names {client}", lambda: line.search(server.said()))
        server.stop()
        lines = folder / "security.log"
        lines.write_text(server.said())
        found = addresses(lines).split()
        is_named = [client for client, _, _ in WAYS if client in found]
        ok &= case("fail2ban finds the clients behind HAProxy", len(is_named) == len(WAYS), found)
        return ok & case("fail2ban does not find HAProxy", "127.0.0.99" not in found, found)


def listens(address):
    host, port = address.split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5):
        return True
    return False
