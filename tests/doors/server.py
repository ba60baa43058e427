"""A fresh server for one check: free ports, a data directory of its own, gone afterwards.

Usage: server.py BINARY COMMAND...      with {http} in COMMAND replaced by the server's HTTP address
"""

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

READY_SECONDS_MAX = 30


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


class Server:
    """A running server: its addresses and its data directory. With `tls` (a client's context) HTTP and MQTT use TLS."""

    def __init__(self, binary, data, log, config="config/dev.toml", tls=None):
        self.http, self.mqtt, self.mqtts = free_address(), free_address(), free_address() if tls else None
        self.binary = free_address()
        self.data, self.log, self.tls = data, log, tls
        flags = ["--data", data, "--http", self.http, "--binary", self.binary, "--mqtt", self.mqtt]
        if tls:
            flags += ["--mqtts", self.mqtts]
        self.command = [binary, "serve", "--config", config, *flags]
        self.start()

    def start(self):
        """Begins, or begins again on the same addresses and data."""
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)

    def request(self, path, body=None, token=None, method=None):
        """Asks the HTTP door and returns the answer's status and body; JSON is sent if there is a body."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["content-type"] = "application/json"
        scheme = "https" if self.tls else "http"
        asked = urllib.request.Request(f"{scheme}://{self.http}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=10, context=self.tls) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read()

    def is_ready(self):
        try:
            return self.request("/healthz")[0] == 200
        except (urllib.error.URLError, OSError):
            return False

    def wait_until_ready(self):
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.fail(f"was not ready within {READY_SECONDS_MAX} s")
            time.sleep(0.02)

    def kill(self):
        """As `kill -9` does."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """As an operator does; a server that does not end well has failed the check."""
        if self.process.poll() is None:
            self.process.terminate()
            status = self.process.wait(timeout=30)
            if status != 0:
                self.fail(f"ended with {status} after SIGTERM")

    def said(self):
        """Its log so far."""
        with open(f"/proc/self/fd/{self.log.fileno()}") as log:
            return log.read()

    def fail(self, what):
        sys.exit(f"the server {what}:\n{self.said()}")


@contextlib.contextmanager
def serve(binary, data=None, **how):
    """A ready server, on config/dev.toml unless `how` says otherwise, stopped afterwards."""
    with contextlib.ExitStack() as gone, tempfile.TemporaryFile("w+") as log:
        data = data or gone.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-doors-"))
        server = Server(binary, data, log, **how)
        try:
            server.wait_until_ready()
            yield server
            server.stop()
        finally:
            if server.process.poll() is None:
                server.kill()


def main():
    with serve(sys.argv[1]) as server:
        status = subprocess.run([word.replace("{http}", server.http) for word in sys.argv[2:]]).returncode
    sys.exit(status)


if __name__ == "__main__":
    main()
