"""One bit of the ledger engine's files flips while its machine is off.

First a life that ends in peace, or (half of the runs) with a power cut; then one flip in any file
of the engine; then a start and a read of everything, entry by entry.

What must hold: no read returns bytes that were not appended there. Damage is reported as
`Corrupt`, at the start or by the read of the entry, every time it is read. After a peaceful end a
flip in a ledger's file damages one entry at most, and its neighbours stay readable. A flip in the
last group of the journal cannot be told from a torn write: such entries may be dropped, but only
from the end of a ledger (its creation too), and only if the life did not end in peace.
"""

from __future__ import annotations

import asyncio
from random import Random

from anabranch.errors import Corrupt, NotFound
from anabranch.runtime.world import World
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import LedgerReader
from tests.simulation.machine import Machine
from tests.simulation.workloads.ledger_history import LedgerHistory, StorageHistory
from tests.simulation.workloads.lives import end_of
from tests.simulation.workloads.storage_crashes import Run, small_config, use_ledgers
from tests.simulation.world import SimulatedWorld


async def flip_a_bit_of_the_ledger_engine(world: SimulatedWorld) -> None:
    random = Random(f"{world.seed}/workload")
    run = Run(world, StorageHistory(), random)
    machine = world.machine("a")
    is_peaceful = random.random() < 0.5

    async def write(inner: World) -> None:
        store = await FileLedgerStore.start(inner, small_config(random))
        await use_ledgers(store, run)
        if is_peaceful:
            await store.close()
        else:
            await asyncio.sleep(random.random() * 0.1)
            machine.power_off()

    async def read(inner: World) -> None:
        await read_everything(inner, run, is_peaceful, path)

    await end_of(machine.spawn(write))
    path = flip_somewhere(machine, random)
    await end_of(machine.spawn(read))


def flip_somewhere(machine: Machine, random: Random) -> str:
    files = {path: inode for path, inode in machine.disk.namespace.names.items() if inode.cache}
    path = random.choice(sorted(files))
    machine.disk.flip(path, random.randrange(8 * len(files[path].cache)))
    return path


async def read_everything(world: World, run: Run, is_peaceful: bool, path: str) -> None:
    in_ledger = "/ledgers/" in path
    try:
        store = await FileLedgerStore.start(world, small_config(run.random))
    except Corrupt:
        assert not (in_ledger and is_peaceful), f"{path} is not read at the start"
        return
    damaged = 0
    for history in run.history.ledgers.values():
        try:
            reader = await store.open(history.ledger)
        except NotFound:
            assert not is_peaceful, f"ledger {history.ledger} is gone"
            continue
        if is_peaceful:
            assert reader.last_confirmed + 1 == history.sure, "a flip has moved the end"
        damaged += await count_damaged(reader, history)
    if is_peaceful:
        assert damaged <= int(in_ledger), f"a flip in {path} damaged {damaged} entries"


async def count_damaged(reader: LedgerReader, history: LedgerHistory) -> int:
    """Read every entry alone, twice: damage does not go away."""
    damaged = 0
    for number in range(reader.last_confirmed + 1):
        outcomes = [await read_one(reader, history, number) for _ in range(2)]
        assert outcomes[0] == outcomes[1], f"entry {number} is damaged one time, sound another"
        damaged += not outcomes[0]
    return damaged


async def read_one(reader: LedgerReader, history: LedgerHistory, number: int) -> bool:
    """Whether the entry is sound; damage must name the ledger it is in."""
    told: list[int | None] = []
    try:
        entries = await reader.read(number, max_entries=1, max_bytes=1)
        assert entries
        history.check(number, list(entries))
    except Corrupt as error:
        told.append(error.ledger)
    assert told in ([], [history.ledger]), f"damage of ledger {history.ledger} told of {told}"
    return not told
