"""Candidates on several machines, a store they share, and leaders that do not know they are over.

A leader acts by writing its epoch to a record, compare-and-set, and only over a smaller or equal
epoch: that is the fence. What must hold, whatever pauses, cuts, deaths and clock jumps do:
- no epoch ever belongs to two candidates, and each is larger than all before;
- the epochs in the record only grow: a leader of the past never gets a write in;
- when things are quiet again, exactly one candidate leads, and the others know which.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

from anabranch.errors import Stale, Unavailable
from anabranch.metadata.election import Election, Following, Leading
from anabranch.metadata.memory import MemoryTree
from anabranch.metadata.store import NEW, MetadataStore
from anabranch.runtime.world import World
from tests.simulation.clock import ProcessClock
from tests.simulation.machine import Machine
from tests.simulation.store_link import StoreLink, run_expiry
from tests.simulation.world import SimulatedWorld

PATH = "/leader"
RECORD = "/state"
QUIET_SECONDS = 20.0  # three sessions' time


@dataclass(eq=False)
class Candidate:
    machine: Machine
    link: StoreLink | None = None
    election: Election | None = None


@dataclass
class Experiment:
    world: SimulatedWorld
    tree: MemoryTree
    candidates: list[Candidate]
    links: list[StoreLink] = field(default_factory=list)  # of the dead as well
    wrote: dict[int, str] = field(default_factory=dict)  # who wrote with which epoch
    led: dict[int, str] = field(default_factory=dict)  # who said it led with which epoch
    last_epoch: int = 0


async def elect_through_pauses_and_cuts(world: SimulatedWorld) -> None:
    tree = MemoryTree(ProcessClock(world.machine("store").clock, world.loop.time, 0.0))
    names = [f"m{number}" for number in range(world.random.randint(2, 4))]
    experiment = Experiment(world, tree, [Candidate(world.machine(name)) for name in names])
    for candidate in experiment.candidates:
        begin(experiment, candidate)
    expiry = asyncio.create_task(run_expiry(lambda: experiment.links))
    for _ in range(world.random.randint(2, 8)):
        await asyncio.sleep(world.random.random() * world.random.choice((0.05, 1, 10)))
        disturb(experiment, world.random.choice(experiment.candidates), world.random)
    await asyncio.sleep(world.random.random() * 10)
    for candidate in experiment.candidates:
        restore(experiment, candidate)
    await asyncio.sleep(QUIET_SECONDS)
    check_quiet(experiment)
    expiry.cancel()


def begin(experiment: Experiment, candidate: Candidate) -> None:
    """A new process: a new session with the store, a new candidate for the lead."""
    random = Random(experiment.world.random.getrandbits(64))

    async def main(world: World) -> None:
        link = candidate.link = StoreLink(experiment.tree, random)
        experiment.links.append(link)
        value = candidate.machine.name.encode()
        election = candidate.election = Election(link.client, PATH, value, world)
        running = asyncio.create_task(election.run())
        while not running.done():
            await act(experiment, candidate, link.client, election)
            await asyncio.sleep(random.random() * 2)
        running.result()

    candidate.machine.spawn(main)


async def act(
    experiment: Experiment, candidate: Candidate, store: MetadataStore, election: Election
) -> None:
    try:
        epoch = election.require_epoch()
    except Stale:
        return
    name = candidate.machine.processes[-1].name
    assert experiment.led.setdefault(epoch, name) == name, f"epoch {epoch} has two leaders"
    try:
        found = await store.get(RECORD)
        known, version = (0, NEW) if found is None else (int(found[0]), found[1].version)
        if known > epoch:
            return  # fenced: somebody later has been here
        await asyncio.sleep(experiment.world.random.random() * 0.1)
        await store.put(RECORD, b"%d" % epoch, version)
    except (Stale, Unavailable):
        return
    note_write(experiment, epoch, name)


def note_write(experiment: Experiment, epoch: int, name: str) -> None:
    # Of the record itself: an answer may be late, the record may not go back.
    assert experiment.wrote.setdefault(epoch, name) == name, f"epoch {epoch} has two writers"
    experiment.last_epoch = max(experiment.last_epoch, epoch)
    node = experiment.tree.tree.get(RECORD)
    assert node is not None
    assert int(node.value) >= experiment.last_epoch, "the epoch in the record went back"


def disturb(experiment: Experiment, candidate: Candidate, random: Random) -> None:
    machine = candidate.machine
    match random.choice(("pause", "pause", "cut", "cut", "kill", "jump", "restore")):
        case "pause":
            machine.pause()
        case "cut" if candidate.link is not None:
            candidate.link.cut()
        case "kill":
            machine.kill()
        case "jump":
            machine.clock.jump(random.choice((-1, 1)) * 3_600_000)
        case _:
            restore(experiment, candidate)


def restore(experiment: Experiment, candidate: Candidate) -> None:
    """Up, running and in reach again; a new process takes over from a dead one."""
    candidate.machine.resume()
    if candidate.link is not None:
        candidate.link.mend()
    if not any(process.alive for process in candidate.machine.processes):
        begin(experiment, candidate)


def check_quiet(experiment: Experiment) -> None:
    roles = [each.election.role for each in experiment.candidates if each.election is not None]
    leading = [role for role in roles if isinstance(role, Leading)]
    assert len(leading) == 1, f"after a quiet while: {roles}"
    assert leading[0].epoch == experiment.last_epoch == max(experiment.led)
    following = [role.leader for role in roles if isinstance(role, Following)]
    assert len(set(following)) <= 1
    assert len(following) == len(roles) - 1
