"""What went wrong, as one type."""

from __future__ import annotations

from typing import Any, Mapping, Optional

NO_ANSWER = "no_answer"


class TidegateError(Exception):
    """A request did not give what was asked for.

    `code` is a stable name for programs, such as `insufficient_funds`; `detail` is a sentence for people. `status` is
    that of HTTP, or None if there was no answer at all (`code` is then `no_answer`). `retry_after` is in seconds.
    `members` has all that the server said, such as `available`.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        status: Optional[int] = None,
        retry_after: Optional[float] = None,
        members: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail, self.status, self.retry_after = code, detail, status, retry_after
        self.members: Mapping[str, Any] = members or {}

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later: no answer, 429 or 5xx. Its outcome may be unknown; asked again
        with the same id, it is never applied twice."""
        return self.status is None or self.status == 429 or self.status >= 500
