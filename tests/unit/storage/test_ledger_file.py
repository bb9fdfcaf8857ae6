"""Reads across memory and file, within their limits, whatever the sizes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from anabranch.errors import NotFound
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import Draft
from tests.ledger_contract import check_holds, draft, read_all
from tests.ledger_engines import TINY, FileEngine

BIG = replace(TINY, journal_file_bytes=4 << 20, group_bytes=1 << 20)


def mixed(count: int, seed: int) -> list[Draft]:
    random = Random(seed)
    sizes = [random.choice((0, 1, 50, 3000, 16_383, 16_384, 40_000)) for _ in range(count)]
    return [draft(random.randbytes(size), time_ms=number) for number, size in enumerate(sizes)]


@pytest.mark.parametrize("cache_bytes", [0, 100_000, 1 << 30])
def test_entries_are_the_same_from_memory_from_file_and_across(
    tmp_path: Path, cache_bytes: int
) -> None:
    async def scenario() -> None:
        engine = FileEngine(tmp_path, replace(BIG, cache_bytes=cache_bytes))
        store = await engine.start()
        writer = await store.create({})
        drafts = mixed(300, 3)
        for start in range(0, 300, 10):
            await writer.append(drafts[start : start + 10])
        for max_entries, max_bytes in ((1, 1), (7, 1 << 20), (1000, 50_000), (1000, 1 << 30)):
            entries = await read_all(writer, max_entries=max_entries, max_bytes=max_bytes)
            check_holds(entries, writer.ledger, drafts)
        await engine.shut_down()

    asyncio.run(scenario())


def test_limits_hold_wherever_the_entries_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = FileEngine(tmp_path, replace(BIG, cache_bytes=100_000))
        store = await engine.start()
        writer = await store.create({})
        drafts = mixed(300, 4)
        for start in range(0, 300, 10):
            await writer.append(drafts[start : start + 10])
        random = Random(1)
        for _ in range(300):
            first, most, room = (
                random.randrange(300),
                random.randint(1, 50),
                random.randint(1, 99_999),
            )
            found = await writer.read(first, max_entries=most, max_bytes=room)
            assert 1 <= len(found) <= most
            assert [entry.entry for entry in found] == list(range(first, first + len(found)))
            assert len(found) == 1 or sum(len(entry.body) for entry in found) <= room
        await engine.shut_down()

    asyncio.run(scenario())


def test_an_entry_larger_than_a_window_is_read_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = FileEngine(tmp_path, replace(BIG, cache_bytes=0))
        store = await engine.start()
        writer = await store.create({})
        drafts = [draft(b"before"), draft(bytes(range(256)) * 10_000), draft(b"behind")]
        await writer.append(drafts)
        await writer.close()
        again = await engine.stop_and_restart()
        reader = await again.open(writer.ledger)
        check_holds(await read_all(reader), writer.ledger, drafts)
        (behind,) = await reader.read(2, max_entries=1, max_bytes=1)
        assert behind.body == b"behind"
        await engine.shut_down()

    asyncio.run(scenario())


def test_a_reader_of_a_deleted_ledger_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = FileEngine(tmp_path)
        store = await engine.start()
        writer = await store.create({})
        await writer.append(mixed(5, 1)[:3])
        reader = await store.open(writer.ledger)
        await store.delete(writer.ledger)
        with pytest.raises(NotFound):
            await reader.read(0, max_entries=1, max_bytes=1)
        await engine.shut_down()

    asyncio.run(scenario())


def test_indexes_of_closed_ledgers_do_not_stay_in_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = FileEngine(tmp_path)
        store = await engine.start()
        ledgers = []
        for _ in range(10):
            writer = await store.create({})
            await writer.append([draft(b"x" * 100)] * 100)
            await writer.close()
            ledgers.append(writer.ledger)
        again = await engine.stop_and_restart()
        for ledger in ledgers:
            assert len(await read_all(await again.open(ledger))) == 100
        assert indexes_in_memory(again) <= TINY.indexes
        assert len(list(tmp_path.glob("storage/ledgers/*.index"))) == 10
        await engine.shut_down()

    asyncio.run(scenario())


def indexes_in_memory(store: FileLedgerStore) -> int:
    return sum(state.index is not None for state in store._table.ledgers.values())
