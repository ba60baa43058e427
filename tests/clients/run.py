"""The client libraries against the real server:  run.py BINARY [types|python|typescript|go|c|examples|generate]...

    types       the checked-in types are those of the server's document; `generate` makes them so
    a language  its own tests; they kill -9 the server (its pid is in TIDEGATE_PID_FILE), the keeper starts it again
    examples    examples/clients/ and clients/c/example.c as printed, each from the first vote or bid on

Each has a server of its own with config/dev.toml, or config/pacing.toml for the pacer's example.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/doors"))

from server import free_address, serve

READY_SECONDS_MAX = 30
SUITE_SECONDS_MAX = 300
PYTHON, TYPESCRIPT, GO, C = (ROOT / "clients" / name for name in ("python", "typescript", "go", "c"))
EXAMPLES = ROOT / "examples/clients"
PRINTED_ADDRESS = "http://localhost:8080"
TOKEN = "dev-service-token"
# As clients/c/README.md prints it.
COMPILE = ["cc", "-std=c99", "-Wall", "-Wextra"]
SANITIZED = [*COMPILE, "-Werror", "-pedantic", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
HOSTILE_SEED, HOSTILE_ROUNDS = 4711, 20_000


class Keeper:
    """Keeps a server running on the same ports and data, as an init system does."""

    def __init__(self, binary, folder):
        self.http, self.binary, self.pid_file = free_address(), free_address(), pathlib.Path(folder) / "pid"
        flags = ["--config", patient_config(folder), "--data", f"{folder}/data", "--http", self.http]
        self.command = [binary, "serve", *flags, "--binary", self.binary, "--mqtt", free_address()]
        self.log = open(f"{folder}/log", "w+")
        self.is_wanted, self.starts = True, 0
        self.thread = threading.Thread(target=self.keep)
        self.thread.start()

    def keep(self):
        while self.is_wanted:
            process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
            self.starts += 1
            self.pid_file.write_text(str(process.pid))
            while process.poll() is None:
                if not self.is_wanted:
                    process.terminate()
                    process.wait(30)
                time.sleep(0.02)

    def stop(self):
        self.is_wanted = False
        self.thread.join()
        self.log.close()


def patient_config(folder):
    """config/dev.toml, but wins are not late because a killed server takes its time to start again."""
    printed = (ROOT / "config/dev.toml").read_text(encoding="utf-8")
    patient = printed.replace("\nwin_deadline_ms = 10000\n", "\nwin_deadline_ms = 3600000\n")
    assert patient != printed, "config/dev.toml has another win_deadline_ms than 10000"
    path = pathlib.Path(folder) / "config.toml"
    path.write_text(patient, encoding="utf-8")
    return path


@contextlib.contextmanager
def kept(binary):
    """A server that is started again whenever it ends."""
    with tempfile.TemporaryDirectory(prefix="tidegate-clients-") as folder:
        keeper = Keeper(binary, folder)
        try:
            wait_until_ready(keeper)
            yield keeper
        finally:
            keeper.stop()


def wait_until_ready(keeper):
    deadline = time.monotonic() + READY_SECONDS_MAX
    while subprocess.run(["curl", "-sf", f"http://{keeper.http}/healthz"], capture_output=True).returncode != 0:
        if time.monotonic() > deadline:
            keeper.log.seek(0)
            sys.exit(f"the server was not ready within {READY_SECONDS_MAX} s:\n{keeper.log.read()}")
        time.sleep(0.05)


def suite(binary, folder, command, campaign=None):
    """Runs a language's tests, for which a campaign has money; 1 if they failed. They get `known` as environment, and
    in the command, where it is in braces."""
    with kept(binary) as keeper:
        known = {
            "TIDEGATE_URL": f"http://{keeper.http}",
            "TIDEGATE_BINARY": keeper.binary,
            "TIDEGATE_PORT": keeper.binary.rpartition(":")[2],
            "TIDEGATE_PID_FILE": str(keeper.pid_file),
        }
        if campaign:
            fund(keeper.http, campaign)
        command = [str(word).format(**known) for word in command]
        status = subprocess.run(command, cwd=folder, env={**os.environ, **known}, timeout=SUITE_SECONDS_MAX).returncode
        why = f"its tests ended with {status}" if status else "the server was never killed" if keeper.starts < 2 else ""
    print(f"clients/{folder.name}: FAILED: {why}" if why else f"clients/{folder.name}: ok", flush=True)
    return bool(why)


def fund(http, campaign):
    """Opens a campaign's accounts, with money."""
    kinds = {"source:bank": "source", f"campaign:{campaign}": "wallet", f"spend:{campaign}": "collector"}
    for account, kind in kinds.items():
        post(http, "/v1/accounts", {"id": account, "asset": "usd_micros", "kind": kind})
    funds = {"debit": "source:bank", "credit": f"campaign:{campaign}", "amount": 1_000_000_000}
    post(http, "/v1/transfers", {"id": f"fund-{campaign}", **funds})


def post(http, path, body):
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    asked = urllib.request.Request(f"http://{http}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=READY_SECONDS_MAX) as answer:
        answer.read()


def python_tests(binary):
    os.environ["PYTHONPATH"] = str(PYTHON / "src")
    return suite(binary, PYTHON, [sys.executable, "-m", "unittest", "discover", "-s", "tests"])


def typescript_tests(binary):
    subprocess.run(["npm", "run", "--silent", "build"], cwd=TYPESCRIPT, check=True)
    tests = sorted(TYPESCRIPT.glob("dist/test/*.test.js"))
    return suite(binary, TYPESCRIPT, ["node", "--test", "--test-reporter=spec", *tests])


def go_tests(binary):
    # What is slow the first time, before the clock of the suite runs: the standard library with the race detector.
    subprocess.run(["go", "build", "-race", "./..."], cwd=GO, check=True)
    subprocess.run(["go", "vet", "./..."], cwd=GO, check=True)
    # One package after the other: each kills the server, and that of the pacer does not send again by itself.
    return suite(binary, GO, ["go", "test", "-race", "-count=1", "-p", "1", "./..."], campaign="go")


def c_tests(binary):
    """Both programs with sanitizers: the second has the real server, the first none."""
    with tempfile.TemporaryDirectory(prefix="tidegate-c-") as folder:
        for name in ["hostile", "server"]:
            subprocess.run([*SANITIZED, "-o", f"{folder}/{name}", f"test/{name}.c"], cwd=C, check=True)
        hostile = [f"{folder}/hostile", str(HOSTILE_SEED), str(HOSTILE_ROUNDS)]
        if subprocess.run(hostile, timeout=SUITE_SECONDS_MAX).returncode != 0:
            print(f"clients/c: FAILED: {' '.join(hostile)}")
            return 1
        command = [f"{folder}/server", "127.0.0.1", "{TIDEGATE_PORT}", TOKEN, "{TIDEGATE_PID_FILE}", "c"]
        return suite(binary, C, command, campaign="c")


def types(binary, *how):
    how = how or ["--check"]
    with serve(binary) as server, tempfile.NamedTemporaryFile() as document:
        document.write(server.request("/openapi.json")[1])
        document.flush()
        return subprocess.run([sys.executable, ROOT / "clients/generate.py", document.name, *how]).returncode


def generate(binary):
    return types(binary, "--write")


def examples(binary):
    """Each as printed but for the address, against a server where nothing has happened yet."""
    return sum(example(binary, name, run) for name, run in EXAMPLE_RUNS.items()) + c_example(binary)


def example(binary, name, run):
    source = (EXAMPLES / name).read_text(encoding="utf-8")
    expected = said_to_print(source)
    assert PRINTED_ADDRESS in source and expected, f"{name} must name {PRINTED_ADDRESS} and say what it prints"
    with serve(binary) as server, tempfile.TemporaryDirectory(prefix="tidegate-example-") as folder:
        folder = pathlib.Path(folder)
        (folder / name).write_text(source.replace(PRINTED_ADDRESS, f"http://{server.http}"), encoding="utf-8")
        ended = run(folder, name)
    return judged(f"examples/clients/{name}", ended, expected)


def said_to_print(source):
    return re.findall(r"^\s*(?://|#|/?\*) prints: (.*)$", source, re.MULTILINE)


def judged(name, ended, expected):
    printed = ended.stdout.splitlines()
    if ended.returncode == 0 and printed == expected:
        print(f"{name}: ok")
        return 0
    print(f"{name}: FAILED: expected {expected}, printed {printed}\n{ended.stderr}")
    return 1


def c_example(binary):
    """Compiled as the README prints, without a warning, against the configuration that it names."""
    expected = said_to_print((C / "example.c").read_text(encoding="utf-8"))
    assert " ".join(COMPILE) in (C / "README.md").read_text(encoding="utf-8") and expected
    with serve(binary, config="config/pacing.toml") as server, tempfile.TemporaryDirectory() as folder:
        ended = told([*COMPILE, "-Werror", "-o", f"{folder}/example", C / "example.c"])
        if ended.returncode == 0:
            host, _, port = server.binary.rpartition(":")
            ended = told([f"{folder}/example", host, port, "dev-exchange-token"])
    return judged("clients/c/example.c", ended, expected)


def told(command, **how):
    return subprocess.run(command, capture_output=True, text=True, timeout=SUITE_SECONDS_MAX, **how)


def run_python(folder, name):
    return told([sys.executable, folder / name], env={**os.environ, "PYTHONPATH": str(PYTHON / "src")})


def run_typescript(folder, name):
    """As in a project that has installed the package."""
    (folder / "node_modules").mkdir()
    (folder / "node_modules/tidegate").symlink_to(TYPESCRIPT)
    (folder / "node_modules/@types").symlink_to(TYPESCRIPT / "node_modules/@types")
    (folder / "package.json").write_text('{"type": "module"}')
    compiler = [TYPESCRIPT / "node_modules/.bin/tsc", "--strict", "--target", "es2022", "--module", "nodenext", name]
    compiled = told(compiler, cwd=folder)
    return told(["node", folder / name.replace(".ts", ".js")]) if compiled.returncode == 0 else compiled


def run_go(folder, name):
    shutil.copytree(GO, folder / "tidegate")
    (folder / "go.mod").write_text(
        "module vote\n\ngo 1.19\n\nrequire tidegate/client v0.0.0\n\nreplace tidegate/client => ./tidegate\n"
    )
    return told(["go", "run", name], cwd=folder)


EXAMPLE_RUNS = {"vote.py": run_python, "vote.ts": run_typescript, "vote.go": run_go}
TESTS = {
    "types": types, "python": python_tests, "typescript": typescript_tests, "go": go_tests, "c": c_tests,
    "examples": examples,
}
STAGES = {**TESTS, "generate": generate}


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    os.chdir(ROOT)
    failed = [name for name in sys.argv[2:] or TESTS if STAGES[name](binary) != 0]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
