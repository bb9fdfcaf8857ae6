"""Reasons not to read from a connection, and when the last of them is gone.

Not reading is how a broker says "slower" to a client: TCP passes it on. Several parts have reasons
of their own (bytes on their way to disk, requests under way, a rate limit), and reading goes on
only when none of them is left.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Reason(Enum):
    BYTES = "bytes on their way to disk"
    REQUESTS = "requests under way"
    RECEIPTS = "acknowledgements that wait for their receipts"
    RATE = "publish rate"


class Brakes:
    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._reasons: set[Reason] = set()

    def __repr__(self) -> str:
        return f"Brakes({', '.join(sorted(each.value for each in self._reasons)) or 'none'})"

    @property
    def are_on(self) -> bool:
        return bool(self._reasons)

    def put_on(self, reason: Reason) -> None:
        if not self._reasons:
            self._pause()
        self._reasons.add(reason)

    def release(self, reason: Reason) -> None:
        if reason in self._reasons:
            self._reasons.remove(reason)
            if not self._reasons:
                self._resume()

    def bound(self, reason: Reason, count: int, limit: int) -> None:
        """On at the limit, off again at half of it: not with every single one."""
        if count >= limit:
            self.put_on(reason)
        elif count <= limit // 2:
            self.release(reason)
