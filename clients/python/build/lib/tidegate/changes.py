"""The stream of changes, which goes on where it broke off.

    connect after cursor ─▶ row, row, heartbeat, … ─▶ broken ─▶ wait ─▶ connect after the last cursor that came whole

Promise: every change comes once, in the order of its shard, over restarts of the server and of this program, if the
program keeps the cursor of the last change that it has worked with.
"""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any, Iterator, Optional

from .connection import BROKEN, no_answer, problem
from .decoding import decode
from .errors import NO_ANSWER, TidegateError
from .models import Change
from .retry import Retry

if TYPE_CHECKING:
    from .client import Client

# The server says something every five seconds.
SILENCE_S_MAX = 15.0


class Follower:
    """Reads the stream for `Client.changes`."""

    def __init__(self, client: Client, query: dict[str, Any], retry: Retry) -> None:
        self.client, self.query, self.retry = client, query, retry
        self.has_ended = False

    def __iter__(self) -> Iterator[Change]:
        failed_since, attempt = time.monotonic(), 0
        while True:
            try:
                for row in self._rows():
                    failed_since, attempt = time.monotonic(), 0
                    self.query["after"] = row.get("cursor", self.query.get("after"))
                    if row["kind"] == "end":
                        return
                    if row["kind"] != "heartbeat":
                        yield decode(Change, row)
                error: TidegateError = no_answer(ConnectionError("the stream of changes broke off"))
            except TidegateError as failed:
                error = failed
            pause = self.retry.wait(attempt, error)
            if not error.is_transient or pause >= self.retry.left(failed_since):
                raise error
            time.sleep(pause)
            attempt += 1

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The rows of one connection, until it breaks."""
        connection = self.client.connections.open(SILENCE_S_MAX)
        try:
            answer = self._connect(connection)
            while (line := answer.readline()).endswith(b"\n"):
                yield json.loads(line)
        except BROKEN as error:
            raise no_answer(error) from error
        finally:
            connection.close()

    def _connect(self, connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        headers = {"accept": "application/x-ndjson", **self.client.headers()}
        connection.request("GET", self.client.target("/v1/changes", self.query), headers=headers)
        answer = connection.getresponse()
        if answer.status == 401 and self.client.log_in_again():
            raise TidegateError(NO_ANSWER, "the token had expired; there is a new one")
        if answer.status != 200:
            raise problem(answer, answer.read())
        return answer
