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


@contextlib.contextmanager
def serve(binary):
    """Yields the HTTP address of a server on config/dev.toml; afterwards it must stop cleanly on SIGTERM."""
    with tempfile.TemporaryDirectory(prefix="tidegate-doors-") as data, tempfile.TemporaryFile("w+") as log:
        http = free_address()
        flags = ["--data", data, "--http", http, "--binary", free_address()]
        process = subprocess.Popen([binary, "serve", "--config", "config/dev.toml", *flags], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + READY_SECONDS_MAX
            while not is_ready(http):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    sys.exit(f"the server was not ready within {READY_SECONDS_MAX} s:\n{log.read()}")
                time.sleep(0.02)
            yield http, data
            process.terminate()
            status = process.wait(timeout=30)
            if status != 0:
                log.seek(0)
                sys.exit(f"the server ended with {status} after SIGTERM:\n{log.read()}")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def main():
    with serve(sys.argv[1]) as (http, _data):
        status = subprocess.run([word.replace("{http}", http) for word in sys.argv[2:]]).returncode
    sys.exit(status)


if __name__ == "__main__":
    main()
