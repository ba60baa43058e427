"""People of an identity provider, a real one (oidc-provider): they vote over HTTP and come in over MQTT with its
tokens; its keys rotate, and what the old ones have signed is good no more.
"""

import contextlib
import json
import pathlib
import queue
import subprocess
import time
import urllib.parse
import urllib.request

from client import Client, Door, SECONDS_MAX, Wrong, expect
from fixture import SERVICE
from server import free_address, serve

HERE = pathlib.Path(__file__).parent


class Provider:
    """The provider's process."""

    def __init__(self):
        address = free_address()
        self.issuer = f"http://{address}"
        command = ["node", HERE / "javascript" / "provider.mjs", address.rpartition(":")[2]]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)

    def __enter__(self):
        self.heard("serving")
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=SECONDS_MAX)

    def heard(self, word):
        for line in self.process.stdout:
            if line.startswith(word):
                return
        raise Wrong(f"the provider ended before it said {word!r}")

    def tell(self, word, answer):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        self.heard(answer)

    def rotate(self):
        self.tell("rotate", "rotated")

    def withdraw(self):
        self.tell("withdraw", "withdrawn")

    def token(self, name):
        asked = {"grant_type": "client_credentials", "client_id": name, "client_secret": name}
        body = urllib.parse.urlencode(asked).encode()
        with urllib.request.urlopen(f"{self.issuer}/token", body, timeout=SECONDS_MAX) as answer:
            return json.load(answer)["access_token"]


def configured(fixture, issuer, more_keys=""):
    more = f"""
[[identity_provider]]
name = "show"
issuer = "{issuer}"
audience = ["tidegate"]
jwks_url = "{issuer}/jwks"
role = "viewer"
role_claim = "realm_access.roles"
wallets = ["wallet:show:{{sub}}"]
grants = ["audit"]
open_wallets_in = "credit"
refresh_least_s = 1
{more_keys}"""
    return fixture.config("people.toml", more=more)


def post(server, path, body, token):
    status, answer = server.request(path, json.dumps(body).encode(), token)
    return status, json.loads(answer)


def until(what, done):
    """Waits for a condition that another thread of the server brings about."""
    deadline = time.monotonic() + SECONDS_MAX
    while not done():
        if time.monotonic() > deadline:
            raise Wrong(f"{what} did not come in {SECONDS_MAX} s")
        time.sleep(0.05)


def transfer(number, debit, credit, amount):
    return {"id": f"people-{number}", "debit": debit, "credit": credit, "amount": amount}


def vote(server, token, number):
    return post(server, "/v1/transfers", transfer(number, "wallet:show:dave", "candidate:1", 1), token)


def heard(client):
    try:
        return client.inbox.get(timeout=SECONDS_MAX).payload
    except queue.Empty:
        raise Wrong("no balance came over MQTT") from None


def votes_and_connects(binary, fixture):
    with Provider() as provider, serve(binary, config=configured(fixture, provider.issuer)) as server:
        token = provider.token("dave")
        path = "/v1/accounts/wallet:show:dave"
        until("the first token", lambda: server.request(path, token=token)[0] == 200)
        status, wallet = server.request(path, token=token)
        expect((status, json.loads(wallet)["balance"]), (200, 0), "the wallet that the first use opens")
        bought = transfer("bought", "source:shop", "wallet:show:dave", 2)
        expect(post(server, "/v1/transfers", bought, SERVICE)[0], 201, "credits are sold")
        expect(vote(server, token, 1)[0], 201, "a vote")
        expect(vote(server, token, 1)[0], 200, "the same vote again")
        stolen = transfer("stolen", "wallet:dave", "candidate:1", 1)
        expect(post(server, "/v1/transfers", stolen, token)[0], 403, "a vote with the credits of the file's dave")
        expect(server.request("/v1/accounts/wallet:show:dave", token=provider.token("carol"))[0], 404,
               "a look at another's wallet")
        expect(server.request("/v1/audit", token=provider.token("operator"))[0], 200, "what the claim of roles permits")
        expect(server.request("/v1/audit", token=token)[0], 403, "what it does not")

        door = Door(server.mqtt, password=token)
        with Client(door.but(user="")) as dave, Client(door.but(user="show:dave")) as named:
            dave.subscribe("$ledger/accounts/wallet:show:dave")
            expect(vote(server, token, 2)[0], 201, "another vote")
            until("the balance over MQTT", lambda: json.loads(heard(dave))["balance"] == 0)
            provider.rotate()
            new = provider.token("dave")
            until("the new key", lambda: server.request(path, token=new)[0] == 200)
            status, answer = server.request(path, token=token)
            expect((status, json.loads(answer)["code"]), (401, "token_invalid"), "the token of a key that is gone")
            expect("kid" in json.loads(answer)["detail"], True, "the reason")
            for client in (dave, named):
                client.wait("disconnect")
        expect(vote(server, new, 2)[0], 200, "the same vote with the new token")
        text = server.request("/metrics", token=SERVICE)[1].decode()
        expect('tidegate_identity_provider_keys{provider="show"} 2' in text, True, "the keys that are counted")


def keys_that_are_withdrawn_end_all_tokens(binary, fixture):
    with Provider() as provider:
        config = configured(fixture, provider.issuer, "refresh_s = 1\n")
        with serve(binary, config=config) as server:
            token = provider.token("dave")
            path = "/v1/accounts/wallet:show:dave"
            until("the first token", lambda: server.request(path, token=token)[0] == 200)
            with Client(Door(server.mqtt, password=token).but(user="")) as dave:
                provider.withdraw()
                until("the end of the token", lambda: server.request(path, token=token)[0] == 401)
                dave.wait("disconnect")
            text = server.request("/metrics", token=SERVICE)[1].decode()
            expect('tidegate_identity_provider_keys{provider="show"} 0' in text, True, "the keys that are counted")


def names_must_fit(binary, fixture):
    with Provider() as provider, serve(binary, config=configured(fixture, provider.issuer)) as server:
        token = provider.token("dave")
        until("the first token", lambda: server.request("/v1/accounts/wallet:show:dave", token=token)[0] == 200)
        for user, wanted in [("dave", "Success"), ("carol", "Bad user name or password")]:
            client = Client(Door(server.mqtt, user=user, password=token))
            client.connect(wanted)
            client.leave()
        wrong = Client(Door(server.mqtt, user="", password=token[:-8] + "AAAAAAAA"))
        wrong.connect("Not authorized")
        wrong.leave()


def starts_without_its_provider(binary, fixture):
    address = free_address()
    with serve(binary, config=configured(fixture, f"http://{address}")) as server:
        expect(server.request("/healthz")[0], 200, "the server without the provider")
        until("the failure in the log", lambda: "cannot get the keys of the identity provider" in server.said())


OWN = [(case.__name__.replace("_", " "), case)
       for case in [votes_and_connects, keys_that_are_withdrawn_end_all_tokens, names_must_fit,
                    starts_without_its_provider]]
