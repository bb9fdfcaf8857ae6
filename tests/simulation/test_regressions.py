"""What seeds have found, each as the smallest story that shows it; named for what must hold.

A seed means another run as soon as a workload changes, so a failing one is told again here, with
the calls in which the machine dies or the disk fails tried one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from crc32c import crc32c

from anabranch.errors import AnabranchError, BadVersion
from anabranch.metadata.sqlite import SqliteTree
from anabranch.runtime.world import World
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import Draft
from anabranch.storage.managed_ledger import Surroundings, load_managed_ledger
from anabranch.storage.memory_ledger import MemoryDisk, MemoryLedgerReader, MemoryLedgerStore
from anabranch.storage.memory_records import MemoryRecords
from tests.simulation.clock import ProcessClock
from tests.simulation.machine import Machine
from tests.simulation.world import SimulatedWorld, run

BODY = b"an entry" * 20


def metadata_lives(
    prepare: Callable[[Machine], None], names: str, seed: int
) -> tuple[set[str], set[str]]:
    """Write; restart in the same machine, look, write `names`; lose power; look again.

    What the second life saw or was acknowledged, and what the third one finds.
    """
    shown: set[str] = set()
    found: set[str] = set()

    async def write(world: World, names: str) -> None:
        session = (await SqliteTree.open("store.db", world)).open_session()
        shown.update(await session.children("/"))
        for name in names:
            await session.put(f"/{name}", b"value", None)
            shown.add(name)
        await asyncio.sleep(1000)

    async def look(world: World) -> None:
        session = (await SqliteTree.open("store.db", world)).open_session()
        found.update(await session.children("/"))

    async def scenario(world: SimulatedWorld) -> None:
        machine = world.machine("a")
        prepare(machine)
        with contextlib.suppress(AnabranchError, TimeoutError):  # the disk fails, or nothing does
            async with asyncio.timeout(100):
                await machine.spawn(lambda inner: write(inner, "abc")).exited()
        machine.disk.never_mind_crash()
        machine.kill()
        second = machine.spawn(lambda inner: write(inner, names))
        await asyncio.sleep(100)
        assert second.alive
        machine.power_off()
        await machine.spawn(look).exited()

    run(seed, scenario)
    return shown, found


@pytest.mark.parametrize("calls", range(18, 42))
def test_a_reopened_database_shows_nothing_that_a_power_cut_could_take_back(calls: int) -> None:
    """Killed between writing SQLite's log and its sync: the next process read the log's cache."""
    for seed in range(4):
        shown, found = metadata_lives(lambda m: m.disk.crash_in(calls, m.kill), "", seed)
        assert shown <= found


@pytest.mark.parametrize("syncs", range(5, 9))
def test_nothing_is_built_on_a_log_whose_sync_has_failed(syncs: int) -> None:
    """After the failed sync the page cache still has the frame, the disk has not, and says ok."""

    def fail_sync(machine: Machine) -> None:
        machine.disk.faults.fail_sync_in = syncs

    for seed in range(12):
        shown, found = metadata_lives(fail_sync, "def", seed)
        assert shown <= found


@pytest.mark.parametrize("syncs", [1, 2, 3, 4])
@pytest.mark.parametrize("appends", [15, 16, 17])
def test_a_ledgers_sync_that_failed_is_not_asked_for_again(appends: int, syncs: int) -> None:
    """Not even by the checkpoint that closing takes.

    A journal file is full after 15 of these entries: the checkpoint that this begins is still
    under way when the store is closed, and its sync of the ledger's file is the one that fails.
    """
    config = EngineConfig(journal_file_bytes=4096, journal_files=2, reserve_bytes=0)
    acknowledged = 0

    async def write(world: World, machine: Machine) -> None:
        nonlocal acknowledged
        store = await FileLedgerStore.start(world, config)
        writer = await store.create({})
        for acknowledged in range(1, appends):  # noqa: B007 (read by `read`)
            await writer.append([Draft(BODY, crc32c(BODY))])
        machine.disk.faults.fail_sync_in = syncs
        writer.submit([Draft(BODY, crc32c(BODY))])
        await store.close()
        machine.disk.faults.fail_sync_in = 0

    async def read(world: World) -> None:
        store = await FileLedgerStore.start(world, config)
        reader = await store.open(1)
        for number in range(acknowledged):
            entries = await reader.read(number, max_entries=1, max_bytes=1)
            assert [entry.body for entry in entries] == [BODY]

    async def scenario(world: SimulatedWorld) -> None:
        machine = world.machine("a")
        await machine.spawn(lambda inner: write(inner, machine)).exited()
        machine.power_off()
        await machine.spawn(read).exited()

    for seed in range(10):
        run(seed, scenario)


class SlowToOpen(MemoryLedgerStore):
    """Its process is paused just before it opens a ledger to read."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.is_reached = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def open(self, ledger: int) -> MemoryLedgerReader:
        self.is_reached.set()
        await self.may_go_on.wait()
        return await super().open(ledger)


def test_a_load_that_was_overtaken_is_to_be_repeated_not_told_as_not_found() -> None:
    """A later owner has replaced the cursor ledger, and deleted the one that the record named."""

    async def scenario(world: SimulatedWorld) -> None:
        disk, records = MemoryDisk(), MemoryRecords()
        clock = ProcessClock(world.machine("a").clock, world.loop.time, 0.0)

        def around(store: MemoryLedgerStore, owner: str) -> Surroundings:
            return Surroundings(store, records, clock, owner)

        first = await load_managed_ledger("topic", around(MemoryLedgerStore(disk), "first"))
        await first.open_cursor("sub")
        slow = SlowToOpen(disk)
        overtaken = asyncio.create_task(load_managed_ledger("topic", around(slow, "slow")))
        await slow.is_reached.wait()
        last = await load_managed_ledger("topic", around(MemoryLedgerStore(disk), "last"))
        await last.open_cursor("another")
        slow.may_go_on.set()
        with pytest.raises(BadVersion, match="took it over"):
            await overtaken

    run(1, scenario)
