"""The real world: the machine's clock, its randomness, its sockets; files are in system_disk.py."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from anabranch.runtime.system_disk import SystemDisk
from anabranch.runtime.world import P, World


class SystemClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class SystemListener:
    host: str
    port: int
    server: asyncio.Server

    async def close(self) -> None:
        # Not wait_closed(): from Python 3.12 it waits for every open connection as well.
        self.server.close()


class SystemNetwork:
    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> SystemListener:
        server = await asyncio.get_running_loop().create_server(factory, host, port)
        bound = server.sockets[0].getsockname()
        return SystemListener(host=bound[0], port=bound[1], server=server)

    async def connect(
        self, factory: Callable[[], P], host: str, port: int
    ) -> tuple[asyncio.Transport, P]:
        return await asyncio.get_running_loop().create_connection(factory, host, port)


def system_world(data_directory: Path) -> World:
    return World(
        clock=SystemClock(),
        random=random.SystemRandom(),
        disk=SystemDisk(data_directory),
        network=SystemNetwork(),
    )
