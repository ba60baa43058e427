"""Safe retries against a server that answers as it is told."""

import functools
import http.server
import json
import threading
import time
import unittest

from tidegate import Client, Retry, TidegateError, new_id

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
APPLIED = b'{"id":"vote-1","outcome":"applied","some_later_field":[1]}'


class Scripted(http.server.BaseHTTPRequestHandler):
    """Answers (status, headers, body), or breaks off where the script has None."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.bodies.append(body)
        answer = self.server.script.pop(0)
        if answer is None:
            self.close_connection = True
            return
        status, headers, text = answer
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Retries(unittest.TestCase):
    def serve(self, *script):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        server.daemon_threads = True
        server.script, server.bodies = list(script), []
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def vote(self, server, **how):
        with Client(f"http://127.0.0.1:{server.server_port}", "token", **how) as client:
            return client.transfer(debit="wallet:dave", credit="candidate:3", amount=1)

    def test_the_same_request_until_there_is_an_answer(self):
        busy = (429, {"retry-after": "1"}, b'{"code":"quota_exceeded","detail":"slower"}')
        server = self.serve(None, (500, {}, b"a proxy's page"), busy, (201, {}, APPLIED))
        begun = time.monotonic()
        self.assertEqual(self.vote(server).outcome, "applied")
        self.assertGreaterEqual(time.monotonic() - begun, 1.0)
        self.assertEqual(len(server.bodies), 4)
        self.assertEqual(len(set(server.bodies)), 1)

    def test_a_refusal_is_not_asked_again(self):
        refusal = b'{"code":"insufficient_funds","detail":"only 4","available":4}'
        server = self.serve((409, {}, refusal))
        with self.assertRaises(TidegateError) as raised:
            self.vote(server)
        self.assertEqual((raised.exception.code, raised.exception.members["available"]), ("insufficient_funds", 4))
        self.assertEqual(len(server.bodies), 1)

    def test_the_deadline_ends_it_with_the_last_error(self):
        busy = (503, {"retry-after": "5"}, b'{"code":"busy","detail":"too much is under way"}')
        server = self.serve(busy, busy)
        begun = time.monotonic()
        with self.assertRaises(TidegateError) as raised:
            self.vote(server, retry=Retry(deadline_s=2.0))
        self.assertEqual((raised.exception.code, raised.exception.retry_after), ("busy", 5.0))
        self.assertLess(time.monotonic() - begun, 2.0)
        self.assertEqual(len(server.bodies), 1)

    def test_an_expired_token_is_renewed_and_the_same_request_sent(self):
        expired = (401, {}, b'{"code":"token_expired","detail":"the token has expired"}')
        tokens = [(200, {}, b'{"token":"%d","expires_at":"2026-11-21T09:14:49Z"}' % number) for number in (1, 2)]
        server = self.serve(tokens[0], expired, tokens[1], (201, {}, APPLIED))
        with Client(f"http://127.0.0.1:{server.server_port}") as client:
            client.log_in("dave", "dave")
            outcome = client.transfer(debit="wallet:dave", credit="candidate:3", amount=1)
            self.assertEqual((outcome.outcome, client.token), ("applied", "2"))
        self.assertEqual(server.bodies[0::2], [server.bodies[0]] * 2)
        self.assertEqual(server.bodies[1::2], [server.bodies[1]] * 2)

    def test_an_empty_id_is_refused_and_none_makes_one(self):
        server = self.serve((201, {}, APPLIED), (201, {}, APPLIED))
        terms = {"debit": "wallet:dave", "credit": "candidate:3", "amount": 1}
        with Client(f"http://127.0.0.1:{server.server_port}", "token") as client:
            for ask in (client.transfer, functools.partial(client.place_hold, expires_in_ms=1000)):
                with self.assertRaisesRegex(ValueError, "the id is empty: .* None"):
                    ask(id="", **terms)
            self.assertEqual(server.bodies, [])
            client.transfer(id=None, **terms)
            client.transfer(id="order-17", **terms)
        ids = [json.loads(body)["id"] for body in server.bodies]
        self.assertEqual((len(ids[0]), ids[1]), (26, "order-17"))

    def test_ids_grow(self):
        ids = [new_id() for _ in range(10_000)]
        self.assertEqual(ids, sorted(set(ids)))
        self.assertTrue(all(len(id) == 26 for id in ids))
        time_ms = functools.reduce(lambda time, digit: time * 32 + ALPHABET.index(digit), ids[0][:10], 0)
        self.assertAlmostEqual(time_ms, time.time() * 1000, delta=60_000)


if __name__ == "__main__":
    unittest.main()
