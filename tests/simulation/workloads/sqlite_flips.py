"""One bit of the metadata database flips while its machine is off.

A life that ends in peace leaves everything in the database file; one without power leaves its end
in SQLite's log. Then a flip in any of the files, a start, and a read of every record.

What must hold: a record that is read is the one that was written. Damage is refused at the start.
A damaged frame of the log passes for its end, as a torn one would: then the last writes may be
missing, but only those, and only if the life did not end in peace.
"""

from __future__ import annotations

import asyncio
from random import Random

from anabranch.errors import Corrupt, Refused, Unavailable
from anabranch.metadata.sqlite import SqliteTree
from anabranch.runtime.world import World
from tests.simulation.workloads.lives import end_of
from tests.simulation.workloads.storage_flips import flip_somewhere
from tests.simulation.world import SimulatedWorld

PATH = "store.db"


async def flip_a_bit_of_the_database(world: SimulatedWorld) -> None:
    random = Random(f"{world.seed}/workload")
    machine = world.machine("a")
    is_peaceful = random.random() < 0.6
    states: list[dict[str, bytes]] = [{}]

    async def write(inner: World) -> None:
        session = (await SqliteTree.open(PATH, inner)).open_session()
        for number in range(random.randint(1, 30)):
            path = f"/r/{random.randint(0, 12)}"
            value = random.randbytes(random.choice((1, 20, 3000)))
            await session.put(path, value, None)
            states.append({**states[-1], path: value})
            await asyncio.sleep(0.001 * (number % 2))
        if is_peaceful:
            await session.close()
        else:
            machine.power_off()

    async def read(inner: World) -> None:
        try:
            session = (await SqliteTree.open(PATH, inner)).open_session()
        except (Corrupt, Refused, Unavailable):
            return
        found = {stat.path: value async for value, stat in session.scan("/r")}
        allowed = states[-1:] if is_peaceful else states
        assert found in allowed, f"a flip in {flipped} was served"

    await end_of(machine.spawn(write))
    flipped = flip_somewhere(machine, random)
    await end_of(machine.spawn(read))
