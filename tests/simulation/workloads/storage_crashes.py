"""The local ledger engine on a machine that keeps dying, with a disk that fails and fills.

A run is a few lives of one process. In each, writers create ledgers, append (waiting, or several
at once), close, and others read along, fence and delete. The engine is configured so small that
journal files are switched, checkpointed and used again all the time.

What must hold is in ledger_history.py. Besides: after the disk has room again, writing resumes by
itself; after a failed sync nothing is acknowledged any more; no wait is without an end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from anabranch.errors import Closed, Corrupt, Fenced, Full, NotFound, Unavailable
from anabranch.runtime.world import World
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import LedgerWriter, Submission
from tests.simulation.machine import Machine
from tests.simulation.workloads.ledger_history import LedgerHistory, StorageHistory, check_ledger
from tests.simulation.workloads.lives import run_lives
from tests.simulation.world import SimulatedWorld

STOPPED = (Unavailable, Full)
ENDED = (Fenced, Closed, NotFound)
# The engine tries again after at most 16 * retry_seconds.
ROOM_AGAIN_SECONDS = 60.0


def small_config(random: Random) -> EngineConfig:
    return EngineConfig(
        journal_file_bytes=random.choice((6000, 9000, 20_000)),
        journal_files=random.randint(2, 4),
        group_bytes=random.choice((1, 1000, 8192)),
        pending_bytes=random.choice((1, 6000, 30_000)),
        owed_bytes=random.choice((1, 4000, 30_000)),
        cache_bytes=random.choice((0, 1000, 30_000)),
        reserve_bytes=random.choice((0, 0, 5000)),
        open_files=random.choice((1, 2, 10)),
        indexes=random.choice((1, 10)),
        retry_seconds=0.25,
    )


@dataclass
class Run:
    world: SimulatedWorld
    history: StorageHistory
    random: Random
    ended_in_peace: bool = False


async def crash_the_ledger_engine(world: SimulatedWorld) -> None:
    run = Run(world, StorageHistory(), Random(f"{world.seed}/workload"))

    async def live(inner: World) -> None:
        await one_life(inner, run)

    await run_lives(world, live, disturb=disturb, max_calls=300)
    assert run.ended_in_peace, "the last life had a sound disk, and failed"


def disturb(machine: Machine, random: Random) -> None:
    faults = machine.disk.faults
    faults.fail_sync_in = faults.fail_write_in = 0
    faults.capacity_bytes = 1 << 40
    faults.slowness = random.choice((1.0, 1.0, 1.0, 30.0))
    match random.choice(("sound", "sound", "sync", "write", "full")):
        case "sync":
            faults.fail_sync_in = random.randint(1, 40)
        case "write":
            faults.fail_write_in = random.randint(1, 80)
        case "full":
            faults.capacity_bytes = machine.disk.namespace.used_bytes() + random.randint(0, 60_000)


async def one_life(world: World, run: Run) -> None:
    run.ended_in_peace = False
    try:
        store = await FileLedgerStore.start(world, small_config(run.random))
    except (*STOPPED, OSError):
        return  # no room, or a failed write, during the start
    await run.history.check_all(store)
    async with asyncio.TaskGroup() as group:
        group.create_task(make_room_later(run))
        await recover_some(store, run)
        for _ in range(run.random.randint(1, 4)):
            group.create_task(use_ledgers(store, run))
        group.create_task(delete_some(store, run))
    await read_again(store, run)
    await store.close()
    run.ended_in_peace = True


async def read_again(store: FileLedgerStore, run: Run) -> None:
    for history in run.history.ledgers.values():
        if not history.delete_asked:
            async with unless_failed(store):
                await check_ledger(await store.open(history.ledger), history)


@asynccontextmanager
async def unless_failed(store: FileLedgerStore) -> AsyncIterator[None]:
    """After a failed sync the kernel has dropped pages that only the journal still has.

    Reads then find old bytes; to notice that is all the engine can do before a restart.
    """
    try:
        yield
    except* (Corrupt, Unavailable):
        if not is_failed(store):
            raise


def is_failed(store: FileLedgerStore) -> bool:
    return bool(store.stats()["state"] == "failed")


async def recover_some(store: FileLedgerStore, run: Run) -> None:
    """Whoever finds an open ledger after a crash recovers it; some are left for the next life."""
    for history in run.history.ledgers.values():
        if not history.deleted and run.random.random() < 0.5:
            await settle(recover(store, history))


async def recover(store: FileLedgerStore, history: LedgerHistory) -> None:
    history.finish(await store.recover(history.ledger))
    history.finish(await store.recover(history.ledger))


async def settle(work: Coroutine[Any, Any, None]) -> bool:
    """Whether it got through; a disk that is full or has failed is no mistake of the engine."""
    try:
        await work
    except STOPPED:
        return False
    return True


async def make_room_later(run: Run) -> None:
    """A full disk is freed after a while, in the same life: writing must resume by itself."""
    await asyncio.sleep(run.random.choice((0.01, 1, 20)))
    run.world.machine("a").disk.faults.capacity_bytes = 1 << 40


async def use_ledgers(store: FileLedgerStore, run: Run) -> None:
    for _ in range(run.random.randint(1, 3)):
        writer = await create(store, run)
        if writer is None:
            return
        history = run.history.ledgers[writer.ledger]
        async with asyncio.TaskGroup() as group:
            group.create_task(write(writer, history, run))
            group.create_task(read_along(store, history, run))
            if run.random.random() < 0.3:
                group.create_task(fence(store, history, run))


async def create(store: FileLedgerStore, run: Run) -> LedgerWriter | None:
    run.history.creations_without_answer += 1
    deadline = run.world.loop.time() + ROOM_AGAIN_SECONDS
    while True:
        try:
            writer = await store.create({"made by": "a simulation"})
        except Full:
            assert run.world.loop.time() < deadline, "there is room, but writing did not resume"
            await asyncio.sleep(1)
        except Unavailable:
            return None
        else:
            run.history.creations_without_answer -= 1
            run.history.created(writer.ledger)
            return writer


async def write(writer: LedgerWriter, history: LedgerHistory, run: Run) -> None:
    random = run.random
    try:
        for _ in range(random.randint(0, 12)):
            await asyncio.sleep(random.choice((0, 0, 0.001)))
            if random.random() < 0.5:
                await append(writer, history, run)
            else:
                await append_many(writer, history, run)
        if random.random() < 0.6:
            history.finish(await writer.close())
    except (*STOPPED, *ENDED):
        pass


async def append(writer: LedgerWriter, history: LedgerHistory, run: Run) -> None:
    drafts = [run.history.make_draft(run.random) for _ in range(run.random.randint(1, 3))]
    # Noted before it is sent: a writer is alone with its ledger, so the place is known.
    first = len(history.drafts)
    history.drafts += drafts
    assert await writer.append(drafts) == first
    history.confirm(first + len(drafts))


async def append_many(writer: LedgerWriter, history: LedgerHistory, run: Run) -> None:
    """Several at once; they are answered in order, and a failure ends all that follow."""
    waiting: list[tuple[Submission, int]] = []
    try:
        for _ in range(run.random.randint(1, 5)):
            draft = run.history.make_draft(run.random)
            submission = writer.submit([draft])
            assert submission.first_entry == len(history.drafts)
            history.drafts.append(draft)
            waiting.append((submission, len(history.drafts)))
    except Unavailable:
        pass  # too much is waiting, or the engine has stopped; what was taken is still answered
    for submission, count in waiting:
        await submission.durable
        assert writer.last_confirmed >= count - 1, "acknowledged before it can be read"
        history.confirm(count)


async def read_along(store: FileLedgerStore, history: LedgerHistory, run: Run) -> None:
    """What a reader of a growing ledger saw counts as durable from then on."""
    try:
        reader = await store.open(history.ledger)
        for _ in range(run.random.randint(0, 4)):
            await asyncio.sleep(run.random.random() * 0.01)
            first = run.random.randint(0, max(0, reader.last_confirmed))
            confirmed = reader.last_confirmed
            async with unless_failed(store):
                entries = await reader.read(first, max_entries=5, max_bytes=3000)
                assert entries or first > confirmed or history.delete_asked
                history.check(first, list(entries))
    except NotFound:
        assert history.delete_asked


async def fence(store: FileLedgerStore, history: LedgerHistory, run: Run) -> None:
    await asyncio.sleep(run.random.random() * 0.02)
    try:
        history.finish(await store.recover(history.ledger))
    except (*STOPPED, NotFound):
        pass


async def delete_some(store: FileLedgerStore, run: Run) -> None:
    for _ in range(run.random.randint(0, 3)):
        await asyncio.sleep(run.random.random() * 0.05)
        alive = [each for each in run.history.ledgers.values() if not each.delete_asked]
        if not alive:
            continue
        history = run.random.choice(alive)
        history.delete_asked = True
        if await settle(store.delete(history.ledger)):
            history.deleted = True
