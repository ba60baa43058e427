#!/usr/bin/env python3
"""A small SMSC: it takes text messages over SMPP 3.4, prints them, and says that they were delivered.

It has no phones. It is what `config/sms.toml` and `sms.py` send to, in place of an operator's.

Usage: smsc.py [--port 2775] [--quiet]
"""

import argparse
import asyncio
import contextlib
import struct
import sys
import time

BIND_TRANSCEIVER, SUBMIT_SM, DELIVER_SM, UNBIND, ENQUIRE_LINK = 0x09, 0x04, 0x05, 0x06, 0x15
RESPONSE, GENERIC_NACK = 0x80000000, 0x80000000
OK, INVALID_COMMAND = 0x00, 0x03
PACKET_BYTES_MAX = 70_000
GSM = ("@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
       "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà")
GSM_BEHIND_ESCAPE = {0x14: "^", 0x28: "{", 0x29: "}", 0x2F: "\\", 0x3C: "[", 0x3D: "~", 0x3E: "]", 0x40: "|", 0x65: "€"}


def text_of(coding, data):
    """The text of a message by its data_coding."""
    if coding == 8:
        return data.decode("utf-16-be", "replace")
    if coding != 0:
        return data.decode("latin-1")
    text, data = "", iter(data)
    for byte in data:
        text += GSM_BEHIND_ESCAPE.get(next(data, 0), "?") if byte == 0x1B else GSM[byte & 0x7F]
    return text


class Submission:
    """A submit_sm."""

    def __init__(self, body, number):
        self.id = f"{number:08x}"
        _, body = body.split(b"\0", 1)
        self.source, body = self.address(body)
        self.destination, body = self.address(body)
        self.esm_class = body[0]
        _, body = body[3:].split(b"\0", 1)
        _, body = body.split(b"\0", 1)
        self.wants_receipt, coding, length = body[0] & 1, body[2], body[4]
        data = body[5 : 5 + length]
        self.part = (1, 1)
        if self.esm_class & 0x40:
            header, data = data[1 : 1 + data[0]], data[1 + data[0] :]
            self.part = (header[4], header[3])
        self.text = text_of(coding, data)

    @staticmethod
    def address(body):
        digits, rest = body[2:].split(b"\0", 1)
        return body[:2] + digits, rest


class Session:
    """One client."""

    def __init__(self, smsc, reader, writer):
        self.smsc, self.reader, self.writer, self.sequence = smsc, reader, writer, 0

    async def serve(self):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length, command, _, sequence = struct.unpack(">4I", await self.reader.readexactly(16))
                if not 16 <= length <= PACKET_BYTES_MAX:
                    break
                self.take(command, sequence, await self.reader.readexactly(length - 16))
                await self.writer.drain()
                if command == UNBIND:
                    break
        self.writer.close()

    def send(self, command, sequence, body=b"", status=OK):
        self.writer.write(struct.pack(">4I", 16 + len(body), command, status, sequence) + body)

    def take(self, command, sequence, body):
        if command == BIND_TRANSCEIVER:
            self.send(command | RESPONSE, sequence, b"smsc\0")
        elif command in (UNBIND, ENQUIRE_LINK):
            self.send(command | RESPONSE, sequence)
        elif command == SUBMIT_SM:
            submission = self.smsc.take(body)
            self.send(command | RESPONSE, sequence, submission.id.encode() + b"\0")
            if submission.wants_receipt:
                self.deliver_receipt(submission)
        elif not command & RESPONSE:
            self.send(GENERIC_NACK, sequence, status=INVALID_COMMAND)

    def deliver_receipt(self, submission):
        now = time.strftime("%y%m%d%H%M")
        text = f"id:{submission.id} sub:001 dlvrd:001 submit date:{now} done date:{now} stat:DELIVRD err:000 text:"
        addresses = submission.destination + b"\0" + submission.source + b"\0"
        fields = bytes([4, 0, 0, 0, 0, 0, 0, 0, 0, len(text)])
        self.sequence += 1
        self.send(DELIVER_SM, self.sequence, b"\0" + addresses + fields + text.encode())


class Smsc:
    """All clients. `taken` is called with each message."""

    def __init__(self, taken):
        self.taken, self.number = taken, 0

    def take(self, body):
        self.number += 1
        submission = Submission(body, self.number)
        self.taken(submission)
        return submission

    async def serve(self, port):
        client = lambda *streams: Session(self, *streams).serve()
        async with await asyncio.start_server(client, "127.0.0.1", port) as server:
            await server.serve_forever()


def show(submission):
    of_part, parts = submission.part
    part = f" ({of_part} of {parts})" if parts > 1 else ""
    source, destination = submission.source[2:].decode(), submission.destination[2:].decode()
    print(f"{source} to {destination}{part}: {submission.text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--port", type=int, default=2775)
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    options = parser.parse_args()
    smsc = Smsc((lambda submission: None) if options.quiet else show)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(smsc.serve(options.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
