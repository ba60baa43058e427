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


def is_ready(http):
    try:
        with urllib.request.urlopen(f"http://{http}/healthz", timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


class Server:
    """A running server: its HTTP address and its data directory."""

    def __init__(self, binary, data, log):
        self.http, self.data, self.log = free_address(), data, log
        flags = ["--data", data, "--http", self.http, "--binary", free_address()]
        command = [binary, "serve", "--config", "config/dev.toml", *flags]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_until_ready(self):
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not is_ready(self.http):
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

    def fail(self, what):
        self.log.seek(0)
        sys.exit(f"the server {what}:\n{self.log.read()}")


@contextlib.contextmanager
def serve(binary):
    """A ready server on config/dev.toml, stopped afterwards."""
    with tempfile.TemporaryDirectory(prefix="tidegate-doors-") as data, tempfile.TemporaryFile("w+") as log:
        server = Server(binary, data, log)
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
