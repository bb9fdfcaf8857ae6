"""Several machines that all believe they own one managed ledger.

The ledger engine is the memory one, shared; the records lie in a metadata store across a network
that cuts. Every machine takes the ledger over whenever it likes, without asking anybody: no lock,
no lease, so pauses, cuts and deaths meet the fencing alone.

What must hold besides managed_history.py: a submission or receipt that was asked for *after* a
later owner had loaded is never answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from anabranch.broker.ledger_records import StoredLedgerRecords
from anabranch.errors import AnabranchError, Stale, Unavailable
from anabranch.metadata.memory import MemoryTree
from anabranch.runtime.world import World
from anabranch.storage.managed_ledger import ManagedLedger, Surroundings, load_managed_ledger
from anabranch.storage.memory_ledger import MemoryDisk, MemoryLedgerStore
from anabranch.topics.positions import EARLIEST
from tests.simulation.clock import ProcessClock
from tests.simulation.machine import Machine
from tests.simulation.process import PROCESS
from tests.simulation.store_link import StoreLink, run_expiry
from tests.simulation.workloads.managed_crashes import small_roll_over
from tests.simulation.workloads.managed_history import CursorHistory, ManagedHistory
from tests.simulation.world import SimulatedWorld

TOPIC = "persistent://public/default/contested"
CURSOR = "sub"
LOST = (Stale, Unavailable)


@dataclass
class Contest:
    world: SimulatedWorld
    tree: MemoryTree
    disk: MemoryDisk
    history: ManagedHistory
    links: dict[str, StoreLink] = field(default_factory=dict)  # by machine: the newest
    all_links: list[StoreLink] = field(default_factory=list)
    last_epoch: int = 0  # of those who have loaded
    producers: int = 0


async def contest_a_managed_ledger(world: SimulatedWorld) -> None:
    tree = MemoryTree(ProcessClock(world.machine("store").clock, world.loop.time, 0.0))
    contest = Contest(world, tree, MemoryDisk(), ManagedHistory(TOPIC))
    contest.history.cursors[CURSOR] = CursorHistory(CURSOR)
    machines = [world.machine(f"m{number}") for number in range(world.random.randint(2, 3))]
    for machine in machines:
        begin(contest, machine)
    expiry = asyncio.create_task(run_expiry(lambda: contest.all_links))
    for _ in range(world.random.randint(2, 8)):
        await asyncio.sleep(world.random.random() * world.random.choice((0.02, 0.2, 1)))
        disturb(contest, world.random.choice(machines), world.random)
    for machine in machines:
        machine.kill()
    expiry.cancel()
    await world.machine("last").spawn(lambda inner: take_over_for_good(contest, inner)).exited()


def begin(contest: Contest, machine: Machine) -> None:
    random = Random(contest.world.random.getrandbits(64))
    machine.spawn(lambda inner: keep_taking_over(contest, machine.name, inner, random))


def disturb(contest: Contest, machine: Machine, random: Random) -> None:
    link = contest.links.get(machine.name)
    match random.choice(("pause", "pause", "resume", "kill", "cut", "mend", "jump")):
        case "pause":
            machine.pause()
        case "kill":
            machine.kill()
            begin(contest, machine)
        case "cut" if link is not None:
            link.cut()
        case "mend" if link is not None:
            link.mend()
        case "jump":
            machine.clock.jump(random.choice((-1, 1)) * 3_600_000)
        case _:
            machine.resume()


def surroundings(contest: Contest, link: StoreLink, world: World, random: Random) -> Surroundings:
    """A store of this process's own on the shared disk; it dies with the process."""
    store = MemoryLedgerStore(contest.disk)
    process = PROCESS.get()
    assert process is not None
    process.at_death.append(lambda: store.crash(kept_entries=random.randint(0, 3)))
    records = StoredLedgerRecords(link.client)
    return Surroundings(store, records, world.clock, process.name, small_roll_over(random))


async def keep_taking_over(contest: Contest, name: str, world: World, random: Random) -> None:
    link = contest.links[name] = StoreLink(contest.tree, random)
    contest.all_links.append(link)
    around = surroundings(contest, link, world, random)
    while True:
        await asyncio.sleep(random.random() * random.choice((0.05, 0.5, 1)))
        try:
            await own_for_a_while(contest, around, random)
        except* LOST:
            pass  # fenced, or the store is out of reach: the usual fate


async def own_for_a_while(contest: Contest, around: Surroundings, random: Random) -> None:
    expected = dict(contest.history.sure)
    managed = await load_managed_ledger(TOPIC, around)
    contest.last_epoch = max(contest.last_epoch, managed.epoch)
    try:
        await contest.history.check_loaded(managed, expected)
    except AnabranchError:
        # A zombie from the first moment may stumble over what its successor has trimmed.
        assert managed.epoch < contest.last_epoch
        raise
    async with asyncio.TaskGroup() as group:
        group.create_task(write(contest, managed, random))
        group.create_task(consume(contest, managed, random))
        group.create_task(add_cursor(contest, managed, random))
    if random.random() < 0.5:
        await managed.unload()
    else:
        managed.abandon("somebody else may have it")


async def write(contest: Contest, managed: ManagedLedger, random: Random) -> None:
    contest.producers += 1
    producer = f"producer-{contest.producers}"
    for _ in range(random.randint(1, 8)):
        await asyncio.sleep(random.random() * random.choice((0.001, 0.02)))
        draft = contest.history.make_draft(producer, b"")
        check = answerable(contest, managed)
        future = managed.submit([draft])
        position = await future
        check("submission")
        contest.history.answered(position, bytes(draft.body))


async def consume(contest: Contest, managed: ManagedLedger, random: Random) -> None:
    cursor = await managed.open_cursor(CURSOR, EARLIEST)
    mine = contest.history.cursors[CURSOR]
    mine.is_created = True
    for _ in range(random.randint(1, 5)):
        await asyncio.sleep(random.random() * random.choice((0.001, 0.02)))
        there = [each for each in sorted(contest.history.sure) if managed.spans().has(each)]
        if there:
            some = set(random.sample(there, min(len(there), 3)))
            mine.ask(some)
            check = answerable(contest, managed)
            is_news = cursor.acknowledge(some) > 0
            await cursor.persist()
            if is_news:  # what was durable before anybody took over needs no write
                check("receipt")
            mine.sure |= some


async def add_cursor(contest: Contest, managed: ManagedLedger, random: Random) -> None:
    """One more subscription, now and then."""
    await asyncio.sleep(random.random() * 0.02)
    if len(contest.history.cursors) < 6 and random.random() < 0.3:
        mine = CursorHistory(f"{CURSOR}-{len(contest.history.cursors)}")
        contest.history.cursors[mine.name] = mine
        await managed.open_cursor(mine.name, EARLIEST)
        mine.is_created = True


def answerable(contest: Contest, managed: ManagedLedger) -> Callable[[str], None]:
    """A check of whether what is asked for now may be answered: not if a later owner has loaded."""
    last_epoch = contest.last_epoch

    def check(what: str) -> None:
        assert managed.epoch >= last_epoch, (
            f"{what} of epoch {managed.epoch} answered, asked for after {last_epoch} had loaded"
        )

    return check


async def take_over_for_good(contest: Contest, world: World) -> None:
    """Peace: everything answered to anybody must be here."""
    random = Random(f"{contest.world.seed}/last")
    link = StoreLink(contest.tree, random)
    await check_names(contest, StoredLedgerRecords(link.client))
    managed = await load_managed_ledger(TOPIC, surroundings(contest, link, world, random))
    await contest.history.check_loaded(managed)
    contest.history.check_cursors(managed)


async def check_names(contest: Contest, records: StoredLedgerRecords) -> None:
    """Others read the list of names without loading the ledger: no cursor may be missing in it."""
    listed = await records.cursor_names(TOPIC)
    created = [cursor.name for cursor in contest.history.cursors_there()]
    assert set(created) <= set(listed), f"created {created}, listed {listed}"
