"""What goes wrong around a broker, one thing at a time, and then peace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.simulation.broker.service import Service
from tests.simulation.disk import DiskFaults
from tests.simulation.world import SimulatedWorld

NETWORK = ("cut", "cut", "lose", "part", "block", "heal", "pause")
BROKER = ("kill", "kill", "power", "power", "die in a call", "die in a call", "stop", "unload")
DISK = ("slow", "full", "room", "failed sync")


class Nemesis:
    def __init__(
        self,
        world: SimulatedWorld,
        service: Service,
        hosts: list[str],
        progress: Callable[[], int],
        kinds: tuple[str, ...] = NETWORK + BROKER + DISK,
    ) -> None:
        """`progress` rises with every answer that a client got."""
        self.world = world
        self.service = service
        self.hosts = hosts
        self.progress = progress
        self.kinds = kinds
        self.random = Random(f"{world.seed}/nemesis")
        self._needs_restart = False

    async def run(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            await self._choose_a_moment()
            kind = self.random.choice(self.kinds)
            self.world.trace.note("nemesis", kind)
            await self._break(kind)
            if not self.service.is_running and self.random.random() < 0.8:
                await asyncio.sleep(self.random.random() * 0.1)
                self._start_if_down()
        await asyncio.sleep(self.random.random() * self.random.choice((0.1, 20.0)))
        await self.make_peace()

    async def _choose_a_moment(self) -> None:
        """Any time, but more often just after something was answered: that must not be lost."""
        if self.random.random() < 0.4:
            await asyncio.sleep(self.random.random() * self.random.choice((0.02, 0.2, 5.0)))
            return
        wanted = self.progress() + self.random.randint(1, 15)
        for _ in range(300):
            if self.progress() >= wanted:
                return
            await asyncio.sleep(0.002 * self.random.random())

    async def _break(self, kind: str) -> None:
        if kind in NETWORK:
            self._break_network(kind)
        elif kind in DISK:
            self._break_disk(kind)
        else:
            await self._break_broker(kind)

    def _break_network(self, kind: str) -> None:
        network, host = self.world.network, self.random.choice(self.hosts)
        match kind:
            case "cut" if network.connections:
                network.cut(self.random.choice(network.connections))
            case "lose" if network.connections:
                network.lose(self.random.choice(network.connections))
            case "part":
                network.partition("broker", host)
            case "block":
                network.block(*self.random.choice((("broker", host), (host, "broker"))))
            case "pause":
                self.service.machine.pause()
            case _:
                network.heal()
                self.service.machine.resume()

    def _break_disk(self, kind: str) -> None:
        disk = self.service.machine.disk
        match kind:
            case "slow":
                disk.faults.slowness = 30.0
            case "full":
                room = self.random.randint(0, 60_000)
                disk.faults.capacity_bytes = disk.namespace.used_bytes() + room
            case "room":
                disk.faults.capacity_bytes = DiskFaults().capacity_bytes
            case _:
                disk.faults.fail_sync_in = self.random.randint(1, 40)
                self._needs_restart = True

    async def _break_broker(self, kind: str) -> None:
        machine = self.service.machine
        machine.resume()
        match kind:
            case "kill":
                machine.kill()
            case "power":
                machine.power_off()
            case "stop":
                await self._stop()
            case "unload":
                self.service.unload_everything()
            case _:
                death = self.random.choice((machine.kill, machine.power_off))
                machine.disk.crash_in(self.random.randint(1, 60), death)
                await asyncio.sleep(self.random.random())

    async def _stop(self) -> None:
        """Who does not stop in time is killed."""
        try:
            async with asyncio.timeout(30.0):
                await self.service.stop()
        except TimeoutError:
            self.service.machine.kill()

    def _start_if_down(self) -> None:
        if not self.service.is_running:
            self.service.start()

    async def make_peace(self) -> None:
        """All is sound from here on. What had no disk to stand on is started again."""
        machine = self.service.machine
        machine.disk.never_mind_crash()
        machine.disk.faults = DiskFaults(sync_lies=machine.disk.faults.sync_lies)
        self.world.network.heal()
        machine.resume()
        if self._needs_restart:
            machine.kill()
        self._start_if_down()
        self.world.trace.note("nemesis", "peace")
