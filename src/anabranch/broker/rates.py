"""How much passes per second, for statistics: totals, and a rate over the last minute.

The minute is a ring of slots of five seconds. A rate is what lies in the slots that are full plus
the one being filled, over the time they span, so a steady flow reads as what it is from the first
seconds on, and one that stopped fades to nothing within a minute. Recording costs two additions.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

SLOT_SECONDS = 5.0
SLOTS = 12  # full ones, beside the one being filled


class Rate(NamedTuple):
    """Per second."""

    messages: float
    bytes: float


class RateMeter:
    __slots__ = ("_full", "_messages", "_size_bytes", "_slot_end", "total_bytes", "total_messages")

    def __init__(self, now_seconds: float) -> None:
        self.total_messages = 0
        self.total_bytes = 0
        self._slot_end = now_seconds + SLOT_SECONDS
        self._messages = 0  # in the slot being filled
        self._size_bytes = 0
        self._full: deque[tuple[int, int]] = deque(maxlen=SLOTS)

    def record(self, now_seconds: float, messages: int, size_bytes: int) -> None:
        if now_seconds >= self._slot_end:
            self._turn(now_seconds)
        self._messages += messages
        self._size_bytes += size_bytes
        self.total_messages += messages
        self.total_bytes += size_bytes

    def rate(self, now_seconds: float) -> Rate:
        if now_seconds >= self._slot_end:
            self._turn(now_seconds)
        in_slot = max(0.0, now_seconds - (self._slot_end - SLOT_SECONDS))
        # At least a second: what came in the first instant is no rate yet.
        seconds = max(1.0, len(self._full) * SLOT_SECONDS + in_slot)
        messages = self._messages + sum(messages for messages, _ in self._full)
        size_bytes = self._size_bytes + sum(size_bytes for _, size_bytes in self._full)
        return Rate(messages / seconds, size_bytes / seconds)

    def _turn(self, now_seconds: float) -> None:
        """Close the slots that ended; the clock may be many of them ahead."""
        ended = int((now_seconds - self._slot_end) // SLOT_SECONDS) + 1
        for _ in range(min(ended, SLOTS + 1)):
            self._full.append((self._messages, self._size_bytes))
            self._messages = self._size_bytes = 0
        self._slot_end += ended * SLOT_SECONDS
