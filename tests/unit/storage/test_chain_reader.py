"""Reading across ledgers while they come and go."""

from __future__ import annotations

import pytest

from anabranch.errors import NotFound
from anabranch.storage.chain_reader import MAX_OPEN_READERS, ChainReader
from anabranch.storage.ledger import LedgerReader
from anabranch.storage.memory_ledger import MemoryLedgerStore
from anabranch.storage.spans import Spans
from anabranch.topics.positions import EARLIEST, Position
from tests.managed_world import draft, run, texts


class Chain:
    """Three closed ledgers, and a picture of them that a test may change."""

    def __init__(self) -> None:
        self.store = MemoryLedgerStore()
        self.spans = Spans.of([])
        self.opened: list[int] = []
        self.reader = ChainReader(self, lambda: self.spans, lambda: None)  # type: ignore[arg-type]

    async def fill(self, sizes: list[int]) -> None:
        pairs = []
        for size in sizes:
            writer = await self.store.create({})
            for number in range(size):
                time_ms = writer.ledger * 100 + number
                await writer.append([draft(f"{writer.ledger}:{number}", time_ms)])
            await writer.close()
            pairs.append((writer.ledger, size))
        self.spans = Spans.of(pairs)

    async def open(self, ledger: int) -> LedgerReader:
        self.opened.append(ledger)
        return await self.store.open(ledger)


def test_empty_ledgers_are_passed_over() -> None:
    async def scenario() -> None:
        chain = Chain()
        await chain.fill([2, 0, 0, 2])
        found = await chain.reader.read(EARLIEST, max_entries=10, max_bytes=1000)
        assert texts(found) == ["1:0", "1:1", "4:0", "4:1"]
        assert chain.opened == [1, 4]

    run(scenario())


def test_a_ledger_trimmed_during_the_read_is_passed_over() -> None:
    async def scenario() -> None:
        chain = Chain()
        await chain.fill([2, 2])
        before = chain.spans
        await chain.store.delete(1)

        def spans() -> Spans:
            # The first look still sees it; the read that follows does not find it any more.
            seen, chain.spans = chain.spans, Spans.of([(2, 2)], Position(1, 1))
            return seen

        chain.spans = before
        chain.reader = ChainReader(chain, spans, lambda: None)  # type: ignore[arg-type]
        found = await chain.reader.read(EARLIEST, max_entries=10, max_bytes=1000)
        assert texts(found) == ["2:0", "2:1"]

    run(scenario())


def test_a_ledger_that_is_missing_is_not_passed_over() -> None:
    async def scenario() -> None:
        chain = Chain()
        await chain.fill([2, 2])
        await chain.store.delete(1)
        with pytest.raises(NotFound):
            await chain.reader.read(EARLIEST, max_entries=10, max_bytes=1000)
        with pytest.raises(NotFound):
            await chain.reader.find_by_time(0)

    run(scenario())


def test_few_readers_stay_open() -> None:
    async def scenario() -> None:
        chain = Chain()
        await chain.fill([1] * (MAX_OPEN_READERS + 2))
        for _ in range(2):
            await chain.reader.read(Position(1, 0), max_entries=1, max_bytes=1000)
        assert chain.opened == [1]
        await chain.reader.read(EARLIEST, max_entries=100, max_bytes=1000)
        await chain.reader.read(Position(1, 0), max_entries=1, max_bytes=1000)
        assert chain.opened.count(1) == 2, "it had to make room"
        chain.reader.forget(1)
        await chain.reader.read(Position(1, 0), max_entries=1, max_bytes=1000)
        assert chain.opened.count(1) == 3

    run(scenario())


def test_time_is_searched_from_the_ledger_of_the_start() -> None:
    async def scenario() -> None:
        chain = Chain()
        await chain.fill([2, 2, 2])
        assert await chain.reader.find_by_time(0, Position(2, 1)) == Position(2, 0)
        assert 1 not in chain.opened
        assert await chain.reader.find_by_time(201) == Position(2, 1)
        assert await chain.reader.find_by_time(302) is None

    run(scenario())
