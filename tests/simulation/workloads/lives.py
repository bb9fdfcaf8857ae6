"""A machine that lives, dies and lives again: the frame of every crash workload.

How a life ends is chosen before it begins: in the nth call of the disk (so that every boundary
between two calls is met sooner or later), at a moment in time, or in peace. The last life is left
alone, so that every run ends with a full recovery.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.simulation.disk import DiskFaults
from tests.simulation.machine import Machine, Main
from tests.simulation.process import Process
from tests.simulation.world import SimulatedWorld

Disturb = Callable[[Machine, Random], None]
MAX_LIFE_SECONDS = 3600.0


def no_disturbance(machine: Machine, random: Random) -> None:
    pass


async def run_lives(
    world: SimulatedWorld,
    live: Main,
    *,
    disturb: Disturb = no_disturbance,
    max_lives: int = 4,
    max_calls: int = 200,
) -> None:
    machine = world.machine("a")
    random = world.random
    for _ in range(random.randint(1, max_lives)):
        disturb(machine, random)
        plan_death(machine, random, max_calls)
        process = machine.spawn(live)
        if random.random() < 0.2:
            await die_at_some_moment(machine, process, random)
        await end_of(process)
        machine.disk.never_mind_crash()
        machine.kill()
    machine.disk.faults = DiskFaults(sync_lies=machine.disk.faults.sync_lies)
    await end_of(machine.spawn(live))


def plan_death(machine: Machine, random: Random, max_calls: int) -> None:
    """Early deaths are as likely as late ones: starting is where recovery happens."""
    if random.random() < 0.85:
        death = random.choice((machine.kill, machine.power_off, machine.power_off))
        calls = random.randint(1, random.choice((30, max_calls // 2, max_calls)))
        machine.disk.crash_in(calls, death)


async def die_at_some_moment(machine: Machine, process: Process, random: Random) -> None:
    await asyncio.sleep(random.choice((0.001, 0.01, 0.1)) * random.random())
    if process.alive:
        random.choice((machine.kill, machine.power_off))()


async def end_of(process: Process) -> None:
    async with asyncio.timeout(MAX_LIFE_SECONDS):
        await process.exited()
