"""A log-in hook for Tidegate: `SECRET=$(cat /etc/tidegate/hook.secret) python3 hook.py`, with in the configuration

    [auth_hook]
    url = "http://127.0.0.1:9000/"
    secret_file = "/etc/tidegate/hook.secret"
"""

import hmac
import http.server
import json
import os

# What would be a look into a database, where passwords are kept as hashes made for passwords.
DEVICES = {"sensor-1": "a long password of its own"}


class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not hmac.compare_digest(self.headers.get("X-Tidegate-Secret", ""), os.environ["SECRET"]):
            return self.send_error(403)
        asked = json.loads(body)
        known = DEVICES.get(asked["user"], "")
        if known and hmac.compare_digest(known.encode(), asked["password"].encode()):
            topics = [f"publish:devices/{asked['user']}/#", f"subscribe:devices/{asked['user']}/#"]
            answer = {"result": "allow", "role": "service", "grants": topics}
        else:
            answer = {"result": "deny"}
        answer = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Says nothing about each question."""


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Hook).serve_forever()
