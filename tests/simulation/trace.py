"""What happened in a run, in order: the evidence when a seed fails, and the proof that it replays.

Every event is hashed; only the last ones are kept as text, so a long run stays small. Two runs of
one seed must end with the same hash, whatever the interpreter's own hash seed.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

KEPT_EVENTS = 5_000


class Trace:
    def __init__(self, now: Callable[[], float], *, kept: int = KEPT_EVENTS) -> None:
        self._now = now
        self._hash = hashlib.blake2b(digest_size=16)
        self._kept: deque[str] = deque(maxlen=kept)
        self.count = 0
        self.listener: Callable[[str], None] | None = None  # prints a run while it happens

    def note(self, who: str, what: str) -> None:
        line = f"{self._now():14.6f} {who:<12} {what}"
        self._hash.update(line.encode())
        self._kept.append(line)
        self.count += 1
        if self.listener is not None:
            self.listener(line)

    def digest(self) -> str:
        return self._hash.hexdigest()

    def last(self, count: int) -> list[str]:
        return list(self._kept)[-count:]
