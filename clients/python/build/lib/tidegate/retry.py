"""When a request is sent again, and for how long.

    attempt ─▶ transient error ─▶ wait (Retry-After, and back-off with jitter) ─▶ attempt … until an answer or the end
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Callable, Optional, TypeVar

from .errors import TidegateError

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """`deadline_s` is for one request with all its attempts; 0 sends each request once, None never gives up. Waits
    begin at `wait_s`, double up to `wait_s_max`, and are a random part of that, so that clients do not come at once."""

    deadline_s: Optional[float] = 30.0
    wait_s: float = 0.05
    wait_s_max: float = 2.0

    def wait(self, attempt: int, error: TidegateError) -> float:
        """Seconds to wait after this attempt, the first of which is 0."""
        bound = min(self.wait_s * 2 ** min(attempt, 30), self.wait_s_max)
        return (error.retry_after or 0.0) + random.uniform(0.0, bound)

    def run(self, attempt_once: Callable[[float], T]) -> T:
        """Calls `attempt_once` with the seconds that are left until it gives something or raises what will not change.
        Past the deadline the last error is raised."""
        begun, attempt = time.monotonic(), 0
        while True:
            try:
                return attempt_once(self.left(begun))
            except TidegateError as error:
                pause = self.wait(attempt, error)
                if not error.is_transient or pause >= self.left(begun):
                    raise
            time.sleep(pause)
            attempt += 1

    def left(self, begun: float) -> float:
        """Seconds until the deadline of what begun at `begun` of the monotonic clock."""
        return float("inf") if self.deadline_s is None else begun + self.deadline_s - time.monotonic()
