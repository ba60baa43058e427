"""Ids with the time in them: ULIDs (https://github.com/ulid/spec).

Each is larger than the one before of this process. The ledger looks for an id only at its time, so it stays fast after
a billion of them; ids of pure chance must be looked for everywhere.
"""

import secrets
import threading
import time
from typing import Optional

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CHANCE_BITS = 80
_last = 0
_lock = threading.Lock()


def new_id() -> str:
    """A new id of 26 characters: 48 bits of milliseconds since the epoch, 80 bits of chance."""
    global _last
    with _lock:
        value = (time.time_ns() // 1_000_000) << _CHANCE_BITS | secrets.randbits(_CHANCE_BITS)
        # In the same millisecond, or when the clock went back, it counts on.
        _last = value if value >> _CHANCE_BITS > _last >> _CHANCE_BITS else _last + 1
        value = _last
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))


def id_or_new(id: Optional[str]) -> str:
    """The id that was given, or a new one for None. An empty one is a ValueError: whoever meant to give an id, as one
    that was stored, would move money a second time under a new one."""
    if id == "":
        raise ValueError("the id is empty: give the id of this request, or None to have a new one made")
    return new_id() if id is None else id
