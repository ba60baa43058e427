"""One HTTP request and its answer, over a connection of each thread's own that stays open.

Invariant: nothing here sends a request twice.
"""

from __future__ import annotations

import http.client
import json
import threading
import urllib.parse
from typing import Any, Mapping, Optional

from .errors import NO_ANSWER, TidegateError

# What a connection that broke, or never was, raises.
BROKEN = (OSError, http.client.HTTPException)


class Connections:
    """The connections to one server."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self.url, self.timeout_s = urllib.parse.urlsplit(url), timeout_s
        if self.url.scheme not in ("http", "https") or not self.url.hostname:
            raise ValueError(f"{url!r}: expected the address of a server, such as http://localhost:8080")
        self._of_thread = threading.local()

    def open(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection of its own; the caller closes it."""
        secure = self.url.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(self.url.hostname or "", self.url.port, timeout=timeout_s)

    def ask(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str], within_s: float
    ) -> tuple[int, Any]:
        """Status and JSON of the answer. Raises TidegateError: `no_answer`, or the server's problem."""
        connection = getattr(self._of_thread, "connection", None) or self.open(self.timeout_s)
        self._of_thread.connection = connection
        timeout_s = max(0.001, min(self.timeout_s, within_s)) if within_s > 0 else self.timeout_s
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        try:
            connection.request(method, self.url.path.rstrip("/") + path, body, dict(headers))
            answer = connection.getresponse()
            text = answer.read()
        except BROKEN as error:
            connection.close()
            raise no_answer(error) from error
        if answer.status >= 400:
            raise problem(answer, text)
        try:
            return answer.status, json.loads(text)
        except ValueError as error:
            raise TidegateError(NO_ANSWER, f"the answer is not JSON, so not Tidegate's: {text[:80]!r}") from error

    def close(self) -> None:
        """Closes this thread's connection."""
        connection = getattr(self._of_thread, "connection", None)
        if connection is not None:
            connection.close()


def no_answer(error: Exception) -> TidegateError:
    """The connection gave no answer: whether the request was done is unknown."""
    cause = str(error) or type(error).__name__
    return TidegateError(NO_ANSWER, f"no answer from the server, the outcome is unknown: {cause}")


def problem(answer: http.client.HTTPResponse, text: bytes) -> TidegateError:
    """The problem (RFC 9457) in an answer; one of a proxy in between has only a status."""
    try:
        members = json.loads(text)
        code, detail = members["code"], members["detail"]
    except (ValueError, KeyError, TypeError):
        members, code, detail = {}, f"http_{answer.status}", text[:200].decode("utf-8", "replace")
    after = answer.headers.get("retry-after", "")
    return TidegateError(code, detail, answer.status, float(after) if after.isdigit() else None, members)
