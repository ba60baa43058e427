"""The ledger on topics: votes by request and response, retained balances, and what other clients must not see."""

import json
import uuid

from client import Client, expect
from fixture import SERVICE

VOTES, TALLIES = "$ledger/transfers", "$ledger/accounts"
DENIED = 0x87
CASES = []


def case(play):
    """Registers a case; it gets the server and its door for MQTT."""
    CASES.append((play.__name__, play))
    return play


def vote(candidate, debit="wallet:dave", amount=1):
    return json.dumps({"id": f"vote-{uuid.uuid4()}", "debit": debit, "credit": candidate, "amount": amount})


def ask(client, body, topic=VOTES):
    """Asks by MQTT and returns the answer as JSON."""
    correlation = uuid.uuid4().bytes
    client.publish(topic, body, 1, ResponseTopic=f"answers/{client.door.user}", CorrelationData=correlation)
    answer = client.inbox.get(timeout=15)
    route = (answer.topic, answer.properties.CorrelationData)
    expect(route, (f"answers/{client.door.user}", correlation), "topic and correlation of the answer")
    return json.loads(answer.payload)


def listening(door, user="dave"):
    client = Client(door.but(user=user, password=user))
    client.connect()
    client.subscribe(f"answers/{user}", qos=1)
    return client


@case
def a_vote_counts_once_however_often_and_wherever_it_is_cast(server, door):
    body = vote("candidate:1")
    token = json.loads(server.request("/v1/login", b'{"user":"dave","password":"dave"}')[1])["token"]
    before = json.loads(server.request("/v1/accounts/candidate:1", token=SERVICE)[1])["credited"]
    dave = listening(door)
    expect(ask(dave, body)["outcome"], "applied", "the first time")
    again = ask(dave, body)
    expect(again["outcome"], "duplicate", "the second time")
    expect(json.loads(server.request("/v1/transfers", body.encode(), token)[1]), again, "over HTTP")
    after = json.loads(server.request("/v1/accounts/candidate:1", token=SERVICE)[1])["credited"]
    expect(after - before, 1, "votes counted")
    dave.leave()


@case
def refusals_say_the_same_as_over_http(server, door):
    dave = listening(door)
    token = json.loads(server.request("/v1/login", b'{"user":"dave","password":"dave"}')[1])["token"]
    wrong = [vote("candidate:1", amount=1_000_000), vote("nobody"), vote("candidate:1", debit="wallet:carol"),
             vote("source:shop"), "{}", "[", "", vote("candidate:1", amount=-1), '{"transfers": []}',
             json.dumps({"transfers": [json.loads(vote("candidate:2"))]})]
    for body in wrong:
        by_mqtt = ask(dave, body)
        by_http = json.loads(server.request("/v1/transfers", body.encode(), token)[1])
        if "outcomes" in by_mqtt:
            # The one good request among them: HTTP came second.
            outcomes = [outcome["outcome"] for outcome in by_mqtt["outcomes"] + by_http["outcomes"]]
            expect(outcomes, ["applied", "duplicate"], body)
        elif by_http.get("remembered"):
            # HTTP came second here, too: it shows the refusal that MQTT got, and MQTT gets that from now on.
            first = [by_mqtt.get(key) for key in ("outcome", "code", "available", "remembered")]
            expect(first, [by_http["outcome"], by_http["code"], by_http["available"], None], body)
            expect(ask(dave, body), by_http, body)
        else:
            expect(by_mqtt, by_http, body)
    dave.leave()


@case
def a_tally_waits_for_who_comes_and_moves_for_who_is_there(server, door):
    def read():
        return json.loads(server.request("/v1/accounts/candidate:2", token=SERVICE)[1])

    dave, carol = listening(door), listening(door, "carol")
    expect(ask(dave, vote("candidate:2"))["outcome"], "applied", "a vote")
    wanted = read()
    # What is announced comes after the answer, so the last figures may follow older ones.
    carol.subscribe(f"{TALLIES}/candidate:2")
    heard = carol.inbox.get(timeout=15)
    expect(heard.retain, True, "retain flag for a new subscription")
    while json.loads(heard.payload) != wanted:
        heard = carol.inbox.get(timeout=15)
    for _ in range(2):
        expect(ask(dave, vote("candidate:2"))["outcome"], "applied", "another vote")
    wanted = read()
    while json.loads(heard.payload) != wanted:
        heard = carol.inbox.get(timeout=15)
        expect(heard.retain, False, "retain flag for an old subscription")
    dave.leave()
    carol.leave()


@case
def who_shares_a_tally_hears_how_it_moves_and_not_where_it_stood(server, door):
    dave, carol = listening(door), listening(door, "carol")
    for filter in [f"$share/g/{TALLIES}/candidate:7", f"$queue/{TALLIES}/candidate:7"]:
        carol.subscribe(filter)
    with Client(door.but(user="dev", password=SERVICE)) as service:
        # It gets what is retained, which was made because the groups had subscribed.
        service.subscribe(f"{TALLIES}/candidate:7")
        stood = json.loads(service.inbox.get(timeout=15).payload)["balance"]
        expect(ask(dave, vote("candidate:7"))["outcome"], "applied", "a vote")
        for _ in range(2):
            heard = carol.inbox.get(timeout=15)
            expect((json.loads(heard.payload)["balance"], heard.retain), (stood + 1, False), "the first that it hears")
    dave.leave()
    carol.leave()


@case
def a_viewer_sees_the_own_wallet_and_collectors_and_nothing_else(server, door):
    with Client(door.but(user="dave", password="dave")) as dave:
        dave.subscribe(f"{TALLIES}/wallet:dave")
        expect(json.loads(dave.inbox.get(timeout=15).payload)["id"], "wallet:dave", "own wallet")
        dave.subscribe(f"{TALLIES}/candidate:3", qos=1)
        for closed in ["wallet:carol", "source:shop", "no:such", "+", "#", "candidate:3/#"]:
            dave.subscribe(f"{TALLIES}/{closed}", wanted=[DENIED])
        for closed in ["$ledger/#", "$ledger/+/wallet:carol", f"$share/g/{TALLIES}/+", VOTES, "$SYS/#"]:
            dave.subscribe(closed, wanted=[DENIED])
        expect(dave.publish(f"{TALLIES}/wallet:dave", "rich", 1), DENIED, "publishing figures")
    with Client(door.but(user="dev", password=SERVICE)) as service:
        service.subscribe(f"{TALLIES}/wallet:carol")
        expect(json.loads(service.inbox.get(timeout=15).payload)["id"], "wallet:carol", "for a service")


@case
def accounts_and_holds_are_asked_for_as_over_http(server, door):
    wallet, hold, other = f"wallet:{uuid.uuid4()}", f"hold-{uuid.uuid4()}", f"hold-{uuid.uuid4()}"

    def request(topic, **body):
        return ask(shop, json.dumps(body), f"$ledger/{topic}")

    with Client(door.but(user="dev", password=SERVICE)) as shop:
        shop.subscribe("answers/dev", qos=1)
        opened = request("accounts", accounts=[{"id": wallet, "asset": "credit", "kind": "wallet"}])
        expect(opened["outcomes"], [{"id": wallet, "outcome": "applied"}], "opening")
        again = request("accounts", id=wallet, asset="credit", kind="wallet")
        expect((again["id"], again["balance"]), (wallet, 0), "opening it again")
        pour = {"id": f"pour-{wallet}", "debit": "source:shop", "credit": wallet, "amount": 10}
        expect(request("transfers", transfers=[pour], linked=True)["outcomes"][0]["outcome"], "applied", "credits")
        money = {"debit": wallet, "credit": "candidate:6", "amount": 4, "expires_in_ms": 60_000}
        both = [{"id": name, **money} for name in (hold, other)]
        placed = request("holds", holds=both, linked=True)["outcomes"]
        expect([line["outcome"] for line in placed], ["applied", "applied"], "two holds, both or none")
        too_much = request("holds", id=f"hold-{uuid.uuid4()}", **money)
        expect((too_much["code"], too_much["available"]), ("insufficient_funds", 2), "one too many")
        expect(request("holds/post", posts=[{"id": hold, "amount": 3}])["outcomes"][0]["outcome"], "applied", "a post")
        expect(request("holds/void", ids=[other])["outcomes"][0]["outcome"], "applied", "a void")
        figures = json.loads(server.request(f"/v1/accounts/{wallet}", token=SERVICE)[1])
        expect((figures["balance"], figures["held"]), (7, 0), "the wallet")
    dave = listening(door)
    for topic, body in [("accounts", {"id": "wallet:x", "asset": "credit", "kind": "wallet"}),
                        ("holds", {"id": "x", **money}), ("holds/void", {"ids": [hold]})]:
        expect(ask(dave, json.dumps(body), f"$ledger/{topic}")["code"], "forbidden", f"{topic} by a viewer")
    dave.leave()


@case
def the_anonymous_have_no_ledger_but_may_see_how_the_broker_is(server, door):
    with Client(door) as nobody:
        for closed in [f"{TALLIES}/candidate:1", f"{TALLIES}/+", "$ledger/#", VOTES]:
            nobody.subscribe(closed, wanted=[DENIED])
        puback = nobody.publish(VOTES, vote("candidate:1"), 1, ResponseTopic="answers/nobody")
        expect(puback, DENIED, "PUBACK for a vote")
        nobody.subscribe("$SYS/broker/version")
        told = nobody.inbox.get(timeout=15)
        expect((told.retain, b"tidegate" in told.payload.lower()), (True, True), f"the version, {told.payload}")
        nobody.subscribe("$SYS/broker/clients/connected")
        expect(int(nobody.inbox.get(timeout=15).payload) >= 0, True, "clients")
        # Wildcards at the beginning never meet topics with $ [MQTT-4.7.2-1].
        with Client(door) as other:
            other.subscribe("+/broker/#")
            expect(nobody.publish("$SYS/broker/version", "mine", 1), DENIED, "publishing figures")
            other.hears_nothing_before(f"last/broker/{uuid.uuid4()}")
