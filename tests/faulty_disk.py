"""A real disk that fails when told to: some matching call raises, once or until it is healed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.runtime.world import Buffer, Disk, File, World

Match = Callable[[str, str], bool]  # (what is done, path) -> whether it counts


@dataclass
class Fault:
    match: Match
    error: int = errno.EIO
    after: int = 0  # so many matching calls succeed first
    times: int = 1  # then so many fail
    hits: int = 0  # how many have failed

    def strike(self, what: str, path: str) -> None:
        if not self.match(what, path):
            return
        if self.after:
            self.after -= 1
        elif self.hits < self.times:
            self.hits += 1
            raise OSError(self.error, os.strerror(self.error), path)


class FaultyDisk:
    """Everything else goes straight to the disk behind it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.faults: list[Fault] = []
        self.free: int | None = None  # what free_bytes says, if not the truth
        self.calls: list[tuple[str, str]] = []

    def fail(self, match: Match, **options: int) -> Fault:
        fault = Fault(match, **options)
        self.faults.append(fault)
        return fault

    def note(self, what: str, path: str) -> None:
        self.calls.append((what, path))
        for fault in self.faults:
            fault.strike(what, path)

    async def open(self, path: str, *, create: bool = False, own_thread: bool = False) -> File:
        self.note("open", path)
        file = await self._disk.open(path, create=create, own_thread=own_thread)
        return FaultyFile(self, path, file)

    async def rename(self, old: str, new: str) -> None:
        self.note("rename", new)
        await self._disk.rename(old, new)

    async def remove(self, path: str) -> None:
        self.note("remove", path)
        await self._disk.remove(path)

    async def sync_directory(self, path: str) -> None:
        self.note("sync_directory", path)
        await self._disk.sync_directory(path)

    async def free_bytes(self) -> int:
        return await self._disk.free_bytes() if self.free is None else self.free

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


class FaultyFile:
    def __init__(self, disk: FaultyDisk, path: str, file: File) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    async def write(self, offset: int, pieces: Sequence[Buffer], *, sync: bool = False) -> None:
        self._disk.note("write", self._path)
        if sync:
            await self._file.write(offset, pieces)
            self._disk.note("sync", self._path)
        await self._file.write(offset, pieces, sync=sync)

    async def sync(self) -> None:
        self._disk.note("sync", self._path)
        await self._file.sync()

    async def read(self, offset: int, size: int) -> bytes:
        self._disk.note("read", self._path)
        return await self._file.read(offset, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def faulty(world: World) -> tuple[World, FaultyDisk]:
    disk = FaultyDisk(world.disk)
    return replace(world, disk=disk), disk
