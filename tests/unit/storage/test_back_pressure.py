"""A managed ledger on an engine that is behind: submissions wait for room instead of failing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from anabranch.errors import Busy, Sealed
from anabranch.runtime.system import system_world
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import Draft
from anabranch.storage.managed_ledger import ManagedLedger, Surroundings, load_managed_ledger
from anabranch.storage.memory_records import MemoryRecords
from anabranch.topics.positions import Position

NARROW = EngineConfig(journal_file_bytes=1 << 20, pending_bytes=16 << 10, reserve_bytes=0)


def body(number: int) -> bytes:
    return number.to_bytes(4, "big") * 1000


def draft(number: int) -> Draft:
    return Draft(body(number), crc32c(body(number)))


def with_narrow_engine(
    directory: Path, scenario: Callable[[ManagedLedger, FileLedgerStore], Awaitable[None]]
) -> None:
    async def run() -> None:
        world = system_world(directory)
        store = await FileLedgerStore.start(world, NARROW)
        around = Surroundings(store, MemoryRecords(), world.clock, owner="test")
        await scenario(await load_managed_ledger("orders", around), store)
        await store.close()

    asyncio.run(run())


def test_more_than_the_engine_takes_at_once_is_stored_in_order(tmp_path: Path) -> None:
    async def scenario(managed: ManagedLedger, store: FileLedgerStore) -> None:
        await managed.append([draft(0)])
        futures = [managed.submit([draft(number)]) for number in range(1, 100)]
        positions = await asyncio.gather(*futures)
        assert positions == sorted(positions)
        assert managed.last_confirmed == positions[-1]
        for number, position in enumerate(positions, 1):
            found = await managed.read(position, max_entries=1, max_bytes=1)
            assert bytes(found[0].body) == body(number)

    with_narrow_engine(tmp_path, scenario)


def test_the_engine_itself_refuses_what_has_no_room(tmp_path: Path) -> None:
    async def scenario(managed: ManagedLedger, store: FileLedgerStore) -> None:
        writer = await store.create({})

        def submit_many() -> None:
            for number in range(100):
                writer.submit([draft(number)])

        with pytest.raises(Busy, match="wait for room"):
            submit_many()
        await store.wait_for_room(len(body(0)))
        await writer.append([draft(0)])

    with_narrow_engine(tmp_path, scenario)


def test_what_waits_for_room_when_the_topic_is_sealed_hears_so(tmp_path: Path) -> None:
    async def scenario(managed: ManagedLedger, store: FileLedgerStore) -> None:
        await managed.append([draft(0)])
        futures = [managed.submit([draft(number)]) for number in range(1, 100)]
        last = await managed.seal()
        answers = await asyncio.gather(*futures, return_exceptions=True)
        stored = [answer for answer in answers if isinstance(answer, Position)]
        refused = answers[len(stored) :]
        assert stored == sorted(stored)
        assert all(isinstance(answer, Sealed) for answer in refused)
        assert refused, "the engine took everything at once: nothing was shown"
        assert max(stored, default=last) == last

    with_narrow_engine(tmp_path, scenario)


def test_unloading_leaves_nobody_waiting(tmp_path: Path) -> None:
    async def scenario(managed: ManagedLedger, store: FileLedgerStore) -> None:
        await managed.append([draft(0)])
        futures = [managed.submit([draft(number)]) for number in range(1, 100)]
        await managed.unload()
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*futures, return_exceptions=True)
        stored = [answer for answer in answers if isinstance(answer, Position)]
        assert stored == sorted(stored)
        assert all(isinstance(answer, Exception) for answer in answers[len(stored) :])

    with_narrow_engine(tmp_path, scenario)
