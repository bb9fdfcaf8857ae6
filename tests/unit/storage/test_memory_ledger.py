"""The memory engine: the contract of all engines, and the faults it can play."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.errors import Corrupt, Fenced, Full, Unavailable
from anabranch.storage.ledger import Draft, LedgerEnd
from anabranch.storage.memory_ledger import MemoryDisk, MemoryLedgerStore
from tests.ledger_contract import EngineUnderTest, LedgerContract, draft, numbered, read_all


class MemoryEngine:
    survives_restart = True  # the disk does, in the tests' own process

    def __init__(self) -> None:
        self.store = MemoryLedgerStore()

    async def start(self) -> MemoryLedgerStore:
        return self.store

    async def kill_and_restart(self) -> MemoryLedgerStore:
        self.store.crash(kept_entries=1)
        self.store = MemoryLedgerStore(self.store.disk)
        return self.store

    async def shut_down(self) -> None:
        pass


class TestMemoryLedgerStore(LedgerContract):
    @pytest.fixture
    def engine(self) -> EngineUnderTest:
        return MemoryEngine()


def test_nothing_commits_while_paused() -> None:
    async def scenario() -> None:
        store = MemoryLedgerStore()
        writer = await store.create({})
        store.pause()
        durable = writer.submit(numbered(0, 2)).durable
        for _ in range(5):
            await asyncio.sleep(0)
        assert writer.last_confirmed == -1
        store.resume()
        await durable
        assert writer.last_confirmed == 1

    asyncio.run(scenario())


def test_a_failed_commit_leaves_its_outcome_to_the_recovery() -> None:
    async def scenario() -> None:
        store = MemoryLedgerStore()
        writer, other = await store.create({}), await store.create({})
        await writer.append(numbered(0, 1))
        store.fail_next_commit(kept_entries=2)
        with pytest.raises(Unavailable, match="outcome of a commit is unknown"):
            await writer.append(numbered(1, 3))
        with pytest.raises(Unavailable):
            writer.submit(numbered(4, 1))
        with pytest.raises(Unavailable):
            await writer.close()
        assert (await store.recover(writer.ledger)).last_entry == 2
        await other.append(numbered(0, 1))

    asyncio.run(scenario())


def test_a_process_that_crashed_answers_nothing_and_another_sees_what_it_left() -> None:
    async def scenario() -> None:
        disk = MemoryDisk()
        old, new = MemoryLedgerStore(disk), MemoryLedgerStore(disk)
        writer = await old.create({})
        await writer.append(numbered(0, 1))
        pending = writer.submit(numbered(1, 3)).durable
        old.crash(kept_entries=1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not pending.done()
        for call in (old.create({}), old.open(1), old.recover(1), old.delete(1), writer.close()):
            with pytest.raises(Unavailable, match="crashed"):
                await call
        assert await new.recover(writer.ledger) == LedgerEnd(1, 200)
        assert len(await read_all(await new.open(writer.ledger))) == 2

    asyncio.run(scenario())


def test_another_process_fences_an_append_that_is_on_its_way() -> None:
    async def scenario() -> None:
        disk = MemoryDisk()
        old, new = MemoryLedgerStore(disk), MemoryLedgerStore(disk)
        writer = await old.create({})
        old.pause()
        pending = writer.submit(numbered(0, 1)).durable
        closing = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        assert (await new.recover(writer.ledger)).last_entry == -1
        old.resume()
        with pytest.raises(Fenced):
            await pending
        with pytest.raises(Fenced):
            await closing

    asyncio.run(scenario())


def test_a_full_disk_refuses_and_goes_on_reading() -> None:
    async def scenario() -> None:
        store = MemoryLedgerStore()
        writer = await store.create({})
        await writer.append(numbered(0, 1))
        store.disk.is_full = True
        with pytest.raises(Full):
            writer.submit(numbered(1, 1))
        with pytest.raises(Full):
            await store.create({})
        assert len(await read_all(writer)) == 1
        store.disk.is_full = False
        assert await writer.append(numbered(1, 1)) == 1

    asyncio.run(scenario())


def test_a_body_that_fails_its_checksum_is_reported_with_its_place() -> None:
    async def scenario() -> None:
        writer = await MemoryLedgerStore().create({})
        await writer.append([draft(b"good"), Draft(b"bad", 0)])
        with pytest.raises(Corrupt, match="entry 1") as caught:
            await writer.read(0, max_entries=10, max_bytes=100)
        assert (caught.value.ledger, caught.value.entry) == (1, 1)

    asyncio.run(scenario())
