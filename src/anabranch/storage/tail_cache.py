"""The last entries of all ledgers, in memory, within a bound of bytes; the oldest go first.

A chunk is counted here once it is in its ledger's file: before that it is owed, and must stay. As
the chunks of a ledger are written in order, the oldest of the cache is always the oldest of its
ledger, and it is enough to remember whose it was.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from anabranch.storage.record_codec import Chunk

# What the objects around a chunk's bytes take, roughly. Counted, or many tiny chunks would cost
# several times the bound.
_OVERHEAD_BYTES = 256


class Cached(Protocol):
    """A ledger as the cache sees it."""

    chunks: deque[Chunk]
    cached: int  # how many of its chunks, from the left, the cache may take away


class TailCache:
    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._order: deque[Cached] = deque()
        self._gone = 0  # places in the order that forgotten ledgers left behind
        self.bytes = 0

    def add(self, ledger: Cached, chunk: Chunk) -> None:
        """`chunk` is the first of its ledger's that is not yet counted."""
        ledger.cached += 1
        self._order.append(ledger)
        self.bytes += chunk.size + _OVERHEAD_BYTES
        while self.bytes > self._limit_bytes:
            self._evict()

    def forget(self, ledger: Cached) -> None:
        """The ledger is gone. Its places in the order are skipped when their turn comes.

        If nothing needs to be evicted that is never; so they are cleared when they are many.
        """
        self._gone += ledger.cached
        for _ in range(ledger.cached):
            self.bytes -= ledger.chunks.popleft().size + _OVERHEAD_BYTES
        ledger.cached = 0
        ledger.chunks.clear()
        if self._gone > 100 + len(self._order) // 2:
            self._order = deque(other for other in self._order if other.cached)
            self._gone = 0

    def _evict(self) -> None:
        ledger = self._order.popleft()
        if not ledger.cached:
            self._gone -= 1
        else:
            ledger.cached -= 1
            self.bytes -= ledger.chunks.popleft().size + _OVERHEAD_BYTES
