"""Managed ledgers on a dying machine: the whole stack, SQLite and the ledger engine on one disk.

A run is a few lives of one owner. In each it loads its managed ledgers, compares them with what
was answered before, then appends, acknowledges, seeks, trims, makes and deletes cursors, seals,
and dies anywhere. Ledgers roll over every few entries. The rules are in managed_history.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from random import Random

from anabranch.broker.ledger_records import StoredLedgerRecords
from anabranch.errors import AnabranchError, Closed, Full, SessionLost, Unavailable
from anabranch.metadata.sqlite import SqliteTree
from anabranch.runtime.world import World
from anabranch.storage.appender import RollConfig
from anabranch.storage.cursor_log import CursorLogConfig
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import Draft
from anabranch.storage.managed_cursors import ManagedCursor
from anabranch.storage.managed_ledger import (
    ManagedLedger,
    ManagedLedgerConfig,
    Surroundings,
    load_managed_ledger,
)
from anabranch.topics.positions import EARLIEST, Position
from tests.simulation.machine import Machine
from tests.simulation.workloads.lives import run_lives
from tests.simulation.workloads.managed_history import (
    CursorHistory,
    ManagedHistory,
    read_everything,
)
from tests.simulation.workloads.storage_crashes import is_failed, small_config, unless_failed
from tests.simulation.world import SimulatedWorld

STOPPED = (Unavailable, Full)
RESUME_SECONDS = 60.0
SUBSCRIPTIONS = ("sub-1", "sub-2", "sub-3")


@dataclass
class Run:
    histories: list[ManagedHistory]
    random: Random
    lives: int = 0
    failure: BaseException | None = None  # of the present life


async def crash_managed_ledgers(world: SimulatedWorld) -> None:
    random = Random(f"{world.seed}/workload")
    names = [f"persistent://public/default/t{number}" for number in range(random.randint(1, 2))]
    run = Run([ManagedHistory(name) for name in names], random)

    async def live(inner: World) -> None:
        run.failure = None
        run.lives += 1
        try:
            await one_life(inner, run)
        except* (*STOPPED, OSError) as failure:  # a disk that failed or filled up
            run.failure = failure

    await run_lives(world, live, disturb=disturb, max_calls=500)
    if run.failure is not None:
        raise AssertionError("the last life had a sound disk, and failed") from run.failure


def disturb(machine: Machine, random: Random) -> None:
    faults = machine.disk.faults
    faults.fail_sync_in = random.randint(1, 100) if random.random() < 0.15 else 0


async def one_life(world: World, run: Run) -> None:
    engine = await SqliteTree.open("metadata.db", world)
    session = engine.open_session()
    # A full queue counts as a failed append up here: leave room for what is sent at once.
    config = replace(small_config(run.random), pending_bytes=60_000, owed_bytes=60_000)
    store = await FileLedgerStore.start(world, config)
    around = Surroundings(
        store, StoredLedgerRecords(session), world.clock, "owner", small_roll_over(run.random)
    )
    loaded = [await load(history, around) for history in run.histories]
    async with unless_failed(store), asyncio.TaskGroup() as group:
        for history, managed in zip(run.histories, loaded, strict=True):
            group.create_task(use(managed, history, run))
    for history, managed in zip(run.histories, loaded, strict=True):
        await write_one_more(managed, history, store)
        if run.random.random() < 0.5:
            await managed.unload()
    await store.close()
    await session.close()


def small_roll_over(random: Random) -> ManagedLedgerConfig:
    return ManagedLedgerConfig(
        RollConfig(max_entries=random.choice((2, 5, 50)), max_bytes=random.choice((300, 5000))),
        CursorLogConfig(flush_seconds=1.0, max_bytes=random.choice((200, 2000))),
    )


async def load(history: ManagedHistory, around: Surroundings) -> ManagedLedger:
    managed = await load_managed_ledger(history.name, around)
    await history.check_loaded(managed)
    history.check_cursors(managed)
    names = await around.records.cursor_names(history.name)
    assert names == managed.cursors.names, "the list of names was not mended"
    return managed


async def use(managed: ManagedLedger, history: ManagedHistory, run: Run) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(write(managed, history, run))
        for name in SUBSCRIPTIONS[: run.random.randint(0, 3)]:
            group.create_task(consume(managed, history, name, run))
        group.create_task(look_after(managed, history, run))
    if run.random.random() < 0.1:
        history.sealed_at = await managed.seal()


async def write(managed: ManagedLedger, history: ManagedHistory, run: Run) -> None:
    """What is refused or fails is not sent again: the next entries go on behind it, or ahead."""
    random, producer = run.random, f"life-{run.lives}"
    for _ in range(random.randint(0, 10)):
        await asyncio.sleep(random.choice((0, 0, 0.002)))
        sizes = [random.choice((0, 10, 300)) for _ in range(random.randint(1, 4))]
        drafts = [history.make_draft(producer, random.randbytes(size)) for size in sizes]
        try:
            await submit_all(managed, history, drafts)
        except STOPPED:
            await asyncio.sleep(random.choice((0, 0.01, 0.1)))
        except Closed:
            assert managed.is_sealed
            return


async def write_one_more(
    managed: ManagedLedger, history: ManagedHistory, store: FileLedgerStore
) -> None:
    """On a sound disk a refusal is for a while only."""
    deadline = asyncio.get_running_loop().time() + RESUME_SECONDS
    while not managed.is_sealed and not is_failed(store):
        draft = history.make_draft("the last", b"")
        try:
            history.answered(await managed.append([draft]), bytes(draft.body))
        except SessionLost:
            return  # the database has failed, not the ledgers
        except STOPPED:
            assert asyncio.get_running_loop().time() < deadline, "writing does not resume"
            await asyncio.sleep(0.1)
        else:
            return


async def submit_all(managed: ManagedLedger, history: ManagedHistory, drafts: list[Draft]) -> None:
    """Several at once; answered in order, and after the first failure none."""
    futures: list[asyncio.Future[Position]] = []
    refusals: list[BaseException] = []
    for draft in drafts:
        try:
            futures.append(managed.submit([draft]))
        except AnabranchError as error:
            refusals.append(error)
            break
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    failures = [each for each in outcomes if isinstance(each, BaseException)]
    assert failures == outcomes[len(outcomes) - len(failures) :], "answered after a failure"
    for draft, outcome in zip(drafts, outcomes, strict=False):
        if isinstance(outcome, Position):
            history.answered(outcome, bytes(draft.body))
    for failure in (*failures, *refusals):
        raise failure


async def consume(managed: ManagedLedger, history: ManagedHistory, name: str, run: Run) -> None:
    mine = history.cursors.setdefault(name, CursorHistory(name))
    cursor = await managed.open_cursor(name, EARLIEST)
    mine.is_created = True
    for _ in range(run.random.randint(0, 6)):
        await asyncio.sleep(run.random.choice((0, 0.003, 0.5)))
        with contextlib.suppress(*STOPPED):
            await acknowledge(cursor, mine, history, run.random)
        if mine.seek is not None:
            return  # it failed, so it may have happened or not: leave it at that
    if run.random.random() < 0.1:
        mine.delete_asked = True
        await managed.delete_cursor(name)
        history.cursors.pop(name)


async def acknowledge(
    cursor: ManagedCursor, mine: CursorHistory, history: ManagedHistory, random: Random
) -> None:
    there = sorted(history.sure)
    if not there:
        return
    match random.choice(("some", "some", "part", "part", "cumulative", "seek")):
        case "some":
            some = random.sample(there, min(len(there), random.randint(1, 4)))
            mine.ask(some)
            cursor.acknowledge(some)
        case "part":
            batch, left = random.choice(there), random.getrandbits(8)
            mine.ask_part(batch, left)
            cursor.acknowledge_batch(batch, [left])
        case "cumulative":
            upto = random.choice(there)
            mine.ask(position for position in there if position <= upto)
            cursor.acknowledge_cumulative(upto)
        case _:
            mine.seek = random.choice(there)
            await cursor.seek(mine.seek)
            mine.finish_seek(mine.seek, history.sure)
    if random.random() < 0.6:
        acked, parts = set(mine.asked), dict(mine.asked_left)
        await cursor.persist()
        mine.receive(acked, parts)


async def look_after(managed: ManagedLedger, history: ManagedHistory, run: Run) -> None:
    """Readers and trimming beside all that; whatever is read is sure from then on."""
    for _ in range(run.random.randint(0, 3)):
        await asyncio.sleep(run.random.random() * 0.05)
        if run.random.random() < 0.5:
            history.check_entries(await read_everything(managed))
            continue
        # Answered, but noted only after an earlier trim had dropped it.
        for position in [each for each in history.sure if each <= managed.record.trimmed_to]:
            del history.sure[position]
        there = history.cursors_there()
        needed = {cursor.name: set(history.sure) - cursor.asked for cursor in there}
        for cursor in there:
            cursor.recent.clear()
        await managed.trim()
        for position in sorted(history.sure):
            if position <= managed.record.trimmed_to:
                check_trimmed(history, position, needed)


def check_trimmed(
    history: ManagedHistory, position: Position, needed: dict[str, set[Position]]
) -> None:
    """Entries that a cursor needed when the trim began, and has not acknowledged since, stay."""
    for cursor in history.cursors_there():
        if position in needed.get(cursor.name, ()):
            assert position in cursor.recent or cursor.seek is not None, (
                f"{position} was trimmed before {cursor.name} had it"
            )
    del history.sure[position]
