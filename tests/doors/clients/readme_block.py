"""The README's first MQTT message, as printed: the block marked ```console.

A line that begins with `$` is a command, the lines below it are what it prints. Only the port is replaced, and a
subscriber that would not end by itself ends with its first message.
"""

import pathlib
import re
import subprocess

from client import SECONDS_MAX, expect

README = pathlib.Path("README.md")
PRINTED_PORT = "-p 1883"


def steps(text):
    """(command, what it prints) of the block."""
    (block,) = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, printed = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", step, re.DOTALL).groups()
        yield command, printed.strip()


def as_printed(server, door):
    done = 0
    for command, printed in steps(README.read_text(encoding="utf-8")):
        real = command.replace(PRINTED_PORT, f"-p {door.port}")
        if command.startswith("mosquitto_sub") and not re.search(r" -[CE]\b", command):
            real = real.replace("mosquitto_sub", "mosquitto_sub -C 1", 1)
        told = subprocess.run(["bash", "-c", real], capture_output=True, text=True, timeout=SECONDS_MAX)
        expect((told.returncode, told.stderr), (0, ""), command)
        if printed:
            expect(told.stdout.strip(), printed, command)
        done += 1
    expect(done >= 5, True, f"{README} has {done} commands for MQTT")
