"""The cache stays within its bound and lets the oldest go, whoever they belong to."""

from __future__ import annotations

from collections import deque

from anabranch.storage.record_codec import Chunk
from anabranch.storage.tail_cache import TailCache


class Ledger:
    def __init__(self) -> None:
        self.chunks: deque[Chunk] = deque()
        self.cached = 0
        self.count = 0

    def write(self, cache: TailCache, size: int = 1000) -> None:
        chunk = Chunk(self.count, 1, 0, bytes(size), None)
        self.count += 1
        self.chunks.append(chunk)
        cache.add(self, chunk)


def test_the_oldest_go_first_across_ledgers() -> None:
    cache, one, two = TailCache(5 * 1256), Ledger(), Ledger()
    for _ in range(3):
        one.write(cache)
        two.write(cache)
    assert [chunk.first for chunk in one.chunks] == [1, 2]
    assert [chunk.first for chunk in two.chunks] == [0, 1, 2]
    assert cache.bytes == 5 * 1256


def test_what_is_not_yet_written_stays() -> None:
    cache, ledger = TailCache(0), Ledger()
    ledger.chunks.append(Chunk(0, 1, 0, bytes(10), None))
    ledger.chunks.append(Chunk(1, 1, 0, bytes(10), None))
    cache.add(ledger, ledger.chunks[0])
    assert [chunk.first for chunk in ledger.chunks] == [1]
    assert cache.bytes == 0


def test_tiny_chunks_count_with_what_surrounds_them() -> None:
    cache, ledger = TailCache(100_000), Ledger()
    for _ in range(10_000):
        ledger.write(cache, size=1)
    assert len(ledger.chunks) < 400


def test_a_forgotten_ledger_gives_its_bytes_back_and_disturbs_nobody() -> None:
    cache, gone, other = TailCache(4 * 1256), Ledger(), Ledger()
    gone.write(cache)
    other.write(cache)
    gone.write(cache)
    gone.chunks.append(Chunk(9, 1, 0, b"", None))  # owed, not cached
    cache.forget(gone)
    assert cache.bytes == 1256
    assert not gone.chunks
    for _ in range(5):
        other.write(cache)
    assert [chunk.first for chunk in other.chunks] == [2, 3, 4, 5]
    assert cache.bytes == 4 * 1256


def test_ledgers_that_come_and_go_leave_nothing_behind() -> None:
    cache, stays = TailCache(1_000_000), Ledger()
    stays.write(cache)
    for _ in range(5000):
        passing = Ledger()
        passing.write(cache)
        cache.forget(passing)
    assert len(cache._order) < 300
    assert len(stays.chunks) == 1
    assert cache.bytes == 1256
