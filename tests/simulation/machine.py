"""A machine: a disk and a wall clock that outlive everything, and the processes on it.

`kill` ends processes the way kill -9 does: the operating system and its page cache live on, and
peers see their connections close. `power_off` takes all of it: unsynced data is lost, peers hear
nothing. `spawn` starts a process, and the machine with it if it was off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from anabranch.runtime.world import World
from tests.simulation.clock import ProcessClock, WallClock
from tests.simulation.disk import SimulatedDisk
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Fabric
from tests.simulation.process import Process
from tests.simulation.trace import Trace

Main = Callable[[World], Coroutine[Any, Any, object]]


class Machine:
    def __init__(
        self,
        name: str,
        seed: str,
        loop: SimulatedLoop,
        fabric: Fabric,
        trace: Trace,
        on_error: Callable[[str], None],
    ) -> None:
        self.name = name
        self.random = Random(f"{seed}/{name}")
        self.clock = WallClock(loop.time)
        self.disk = SimulatedDisk(name, Random(f"{seed}/{name}/disk"), loop, trace)
        self.processes: list[Process] = []
        self._loop = loop
        self._fabric = fabric
        self._trace = trace
        self._on_error = on_error
        self._spawned = 0

    def spawn(self, main: Main) -> Process:
        self._fabric.power_on(self.name)
        self._spawned += 1
        process = Process(f"{self.name}#{self._spawned}", self._loop.run_again)
        world = self._world_of(process)
        self.processes = [other for other in self.processes if other.alive] + [process]
        self._trace.note(process.name, "starts")
        process.main = self._loop.create_task(main(world), context=process.context)
        process.main.add_done_callback(
            lambda task: self._exit(process, task), context=self._loop.kernel
        )
        return process

    def kill(self) -> None:
        for process in self.processes:
            self._end(process, "killed")

    def power_off(self) -> None:
        self._fabric.power_off(self.name)
        for process in self.processes:
            self._end(process, "without power")
        self.disk.lose_power()

    def pause(self) -> None:
        self._trace.note(self.name, "pauses")
        for process in self.processes:
            process.pause()

    def resume(self) -> None:
        self._trace.note(self.name, "resumes")
        for process in self.processes:
            process.resume()

    def _exit(self, process: Process, task: asyncio.Task[Any]) -> None:
        """The main function returned, or raised; an error that nobody waits for fails the run."""
        error = None if task.cancelled() else task.exception()
        if error is not None and process.alive and not process.is_awaited:
            self._on_error(f"{process.name} failed: {error!r}")
        self._end(process, "exited" if error is None else "failed")

    def _end(self, process: Process, fate: str) -> None:
        if process.alive:
            self._trace.note(process.name, fate)
            process.die(fate)

    def _world_of(self, process: Process) -> World:
        return World(
            clock=ProcessClock(self.clock, self._loop.time, self.random.uniform(0, 1e6)),
            random=Random(self.random.getrandbits(64)),
            disk=self.disk.mount(process),
            network=self._fabric.attach(self.name, process),
        )
