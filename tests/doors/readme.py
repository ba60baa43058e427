"""Runs the README's commands as printed, in one shell, and compares what they print.

In a block marked ```sh, a line is a command; comment lines directly below it are what it must print, where `…` stands
for anything. A block without such a comment is not run (`make run` itself, for example). A block that begins with the
server's binary is run after a `kill -9`, as the README says. Only the address, the binary and the data directory are
replaced, so that the check can run beside another server.

Usage: readme.py BINARY
"""

import re
import subprocess
import sys
from pathlib import Path

from server import serve

README = Path("README.md")
PRINTED_ADDRESS = "localhost:8080"
PRINTED_BINARY = "target/release/tidegate"
PRINTED_DATA = "--data data"


def steps(text):
    """(line number, command, expected output lines) of every block that has an expected output."""
    for block in re.finditer(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, block.start(1)) + 1
        found, command, expected = [], [], []
        for row in block.group(1).splitlines() + [""]:
            is_output = row.startswith("# ")
            if command and not is_output and not command[-1].endswith("\\"):
                found.append((line - len(command) - len(expected), "\n".join(command), expected))
                command, expected = [], []
            if is_output:
                expected.append(row[2:])
            elif row:
                command.append(row)
            line += 1
        if any(expected for _, _, expected in found):
            yield from found


def matches(expected, printed):
    pattern = ".*".join(re.escape(part) for part in "\n".join(expected).split("…"))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def run(shell, command):
    """One command in the shell that all of them share; its output up to a mark."""
    mark = "--- end of command ---"
    shell.stdin.write(f"{command}\necho; echo '{mark}'\n")
    shell.stdin.flush()
    lines = []
    while (line := shell.stdout.readline()).rstrip("\n") != mark:
        if not line:
            sys.exit(f"the shell ended in: {command}")
        lines.append(line)
    return "".join(lines)


def check(todo, replaced):
    """Runs the commands in one shell; how many did not print what they should."""
    failures = 0
    pipe = subprocess.PIPE
    shell = subprocess.Popen(["bash"], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    for line, command, expected in todo:
        real = command
        for printed, actual in replaced.items():
            real = real.replace(printed, actual)
        printed = run(shell, real)
        if matches(expected, printed):
            print(f"{README}:{line}: ok: {command.splitlines()[0]}")
        else:
            failures += 1
            print(f"{README}:{line}: {command}\n  expected: {chr(10).join(expected)}\n  printed:  {printed.strip()}")
    shell.stdin.close()
    shell.wait()
    return failures


def main():
    binary = sys.argv[1]
    todo = list(steps(README.read_text(encoding="utf-8")))
    online = [step for step in todo if not step[1].startswith(PRINTED_BINARY)]
    offline = [step for step in todo if step[1].startswith(PRINTED_BINARY)]
    if len(online) < 8 or not offline:
        sys.exit(f"{README} has only {len(todo)} commands to check; were the blocks renamed?")
    with serve(binary) as server:
        failures = check(online, {PRINTED_ADDRESS: server.http})
        server.kill()
        failures += check(offline, {PRINTED_BINARY: binary, PRINTED_DATA: f"--data {server.data}"})
    if failures:
        sys.exit(f"{failures} of {len(todo)} commands of {README} do not do what it says")
    print(f"{README}: all {len(todo)} commands do what it says")


if __name__ == "__main__":
    main()
