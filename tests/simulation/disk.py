"""A disk behind system calls: latency, queues, errors, and machines that die in the middle.

`SimulatedDisk` is the hardware and outlives every process; `ProcessDisk` is what one process gets
to see (the `Disk` of runtime/world.py). A call is handed to the kernel, which carries it out some
time later whether or not the caller still waits. Calls on one file with a thread of its own keep
their order; all others finish in any order.

A call is a list of steps (a synced write: write, then sync). A process that dies while calls are
under way leaves each of them at any of its steps, a write also half done; `crash_in` chooses the
call at which that happens by counting, so every boundary is met sooner or later.
"""

from __future__ import annotations

import asyncio
import errno
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from anabranch.errors import Unavailable
from anabranch.runtime.world import Buffer, Database
from tests.simulation.loop import SimulatedLoop
from tests.simulation.platter import Inode, Namespace, Snapshot, parent_of
from tests.simulation.process import Process
from tests.simulation.trace import Trace

T = TypeVar("T")
Step = Callable[[], Any]


@dataclass
class DiskFaults:
    """What is wrong with this disk at the moment. Counts start at the next call of that kind."""

    capacity_bytes: int = 1 << 40
    slowness: float = 1.0
    fail_sync_in: int = 0  # 1: the next sync returns EIO, once; 0: none
    fail_write_in: int = 0
    sync_lies: bool = False  # sync returns, and saves nothing: for tests of the tests


@dataclass(eq=False)
class Call:
    name: str
    steps: list[Step]
    future: asyncio.Future[Any]
    torn: Step | None = None  # what may be left of the first step
    lane: Lane | None = None
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


class SimulatedDisk:
    def __init__(self, name: str, random: Random, loop: SimulatedLoop, trace: Trace) -> None:
        self.name = name
        self.random = random
        self.loop = loop
        self.trace = trace
        self.namespace = Namespace()
        self.faults = DiskFaults()
        self.locks: dict[str, Process] = {}
        self.calls = 0
        self._crash_at = 0
        self._crash: Callable[[], None] = lambda: None

    def mount(self, process: Process) -> ProcessDisk:
        return ProcessDisk(self, process)

    def crash_in(self, calls: int, crash: Callable[[], None]) -> None:
        """Call `crash` in the middle of the call so many calls from now."""
        self._crash_at = self.calls + calls
        self._crash = crash

    def never_mind_crash(self) -> None:
        self._crash_at = 0

    def lose_power(self) -> None:
        self.namespace.lose_power(self.random)
        self.never_mind_crash()

    def flip(self, path: str, bit: int) -> None:
        self.trace.note(self.name, f"flip {path} bit {bit}")
        self.namespace.find(path).flip(bit)

    def free_bytes(self) -> int:
        return max(0, self.faults.capacity_bytes - self.namespace.used_bytes())

    def is_crash_due(self) -> bool:
        """Count one call; say whether it is the one in which the machine dies."""
        self.calls += 1
        return self.calls == self._crash_at

    def crash(self) -> None:
        self.trace.note(self.name, f"dies in call {self.calls}")
        self.never_mind_crash()
        self._crash()

    def latency(self, name: str) -> float:
        usual = 0.001 if "sync" in name or name == "transact" else 0.0001
        rare = 50.0 if self.random.random() < 0.02 else 1.0
        return usual * self.random.uniform(0.2, 2.0) * rare * self.faults.slowness

    # What calls do to the platter; the database uses these too.

    def write(self, inode: Inode, offset: int, data: bytes) -> None:
        self._maybe_fail_write(inode, offset, data)
        growth = max(0, offset + len(data) - len(inode.cache))
        room = self.free_bytes() if growth else 0
        if growth > room:
            inode.write(offset, data[: max(0, len(inode.cache) + room - offset)])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        inode.write(offset, data)
        if self.random.random() < 0.05:
            inode.write_back(self.random)

    def truncate(self, inode: Inode, size: int) -> None:
        if size - len(inode.cache) > self.free_bytes():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        inode.truncate(size)

    def sync(self, inode: Inode, snapshot: Snapshot | None = None) -> None:
        snapshot = snapshot or inode.snapshot()
        if self.faults.fail_sync_in:
            self.faults.fail_sync_in -= 1
            if not self.faults.fail_sync_in:
                self.trace.note(self.name, "sync fails")
                inode.lose(snapshot, self.random)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        if not self.faults.sync_lies:
            inode.land(snapshot)

    def sync_directory(self, path: str) -> None:
        if not self.faults.sync_lies:
            self.namespace.sync_directory(path)

    def _maybe_fail_write(self, inode: Inode, offset: int, data: bytes) -> None:
        if not self.faults.fail_write_in:
            return
        self.faults.fail_write_in -= 1
        if not self.faults.fail_write_in:
            self.trace.note(self.name, "write fails")
            inode.write(offset, data[: self.random.randint(0, len(data))])
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class ProcessDisk:
    def __init__(self, disk: SimulatedDisk, process: Process) -> None:
        self.disk = disk
        self.process = process
        self._under_way: dict[Call, None] = {}
        process.at_death.append(self._abandon)

    async def perform(
        self,
        name: str,
        *steps: Step,
        torn: Step | None = None,
        lane: Lane | None = None,
    ) -> Any:
        """Hand a call to the kernel and wait for it; the result is that of its last step."""
        self.process.check()
        loop = self.disk.loop
        when = loop.time() + self.disk.latency(name)
        if lane is not None:
            when = lane.free_at = max(when, lane.free_at + self.disk.latency(name))
        call = Call(name, list(steps), loop.create_future(), torn, lane)
        self._under_way[call] = None
        call.timer = loop.call_kernel_at(when, self._complete, call)
        if lane is not None:
            lane.calls.append(call)
        return await call.future

    def _complete(self, call: Call) -> None:
        if call.lane is not None:  # equal times do not keep their order in a heap
            call = call.lane.calls.pop(0)
        del self._under_way[call]
        if self.disk.is_crash_due():
            self._under_way[call] = None
            self.disk.crash()
            return
        try:
            result = [step() for step in call.steps][-1]
        except Exception as error:
            self.disk.trace.note(self.process.name, f"{call.name}: {error}")
            if not call.future.done() and self.process.alive:
                call.future.set_exception(error)
            return
        self.disk.trace.note(self.process.name, call.name)
        if not call.future.done() and self.process.alive:
            call.future.set_result(result)

    def _abandon(self) -> None:
        """The process is dead: the kernel has carried out any part of what it had been asked."""
        self.disk.never_mind_crash()
        stopped: set[Lane] = set()
        for call in self._under_way:
            if call.timer is not None:
                call.timer.cancel()
            if call.lane not in stopped and not self._carry_out_part(call) and call.lane:
                stopped.add(call.lane)
        self._under_way.clear()
        for path in [path for path, owner in self.disk.locks.items() if owner is self.process]:
            del self.disk.locks[path]

    def _carry_out_part(self, call: Call) -> bool:
        """Whether all of it was carried out, so that the next call of its lane may begin."""
        random = self.disk.random
        if call.torn is not None and random.random() < 0.4:
            call.torn()
            return False
        steps = random.randint(0, len(call.steps))
        try:
            for step in call.steps[:steps]:
                step()
        except Exception as error:
            self.disk.trace.note(self.process.name, f"{call.name}, abandoned: {error}")
        return steps == len(call.steps)

    async def open(self, path: str, *, create: bool = False, own_thread: bool = False) -> DiskFile:
        names = self.disk.namespace

        def find() -> Inode:
            if create and path not in names.names:
                return names.create(path)
            return names.find(path)

        inode = await self.perform(f"open {path}", find)
        return DiskFile(self, path, inode, Lane() if own_thread else None)

    async def exists(self, path: str) -> bool:
        names = self.disk.namespace
        found = await self.perform(
            f"exists {path}", lambda: path in names.names or path in names.directories
        )
        return bool(found)

    async def make_directory(self, path: str) -> None:
        await self.perform(
            f"make_directory {path}", lambda: self.disk.namespace.make_directory(path)
        )

    async def list_directory(self, path: str) -> list[str]:
        names: list[str] = await self.perform(
            f"list {path}", lambda: self.disk.namespace.list(path)
        )
        return names

    async def rename(self, old: str, new: str) -> None:
        await self.perform(f"rename {old} {new}", lambda: self.disk.namespace.rename(old, new))

    async def remove(self, path: str) -> None:
        await self.perform(f"remove {path}", lambda: self.disk.namespace.remove(path))

    async def sync_directory(self, path: str) -> None:
        await self.perform(f"sync_directory {path}", lambda: self.disk.sync_directory(path))

    async def free_bytes(self) -> int:
        free: int = await self.perform("free_bytes", self.disk.free_bytes)
        return free

    def lock(self, path: str) -> Lock:
        self.process.check()
        if path in self.disk.locks:
            raise Unavailable(f"{path} is held by {self.disk.locks[path]}")
        if path not in self.disk.namespace.names:
            self.disk.namespace.create(path)
        self.disk.locks[path] = self.process
        return Lock(self, path)

    async def open_database(self, path: str) -> Database:
        # Here, because a run without a database should not need apsw.
        from tests.simulation.database import open_database

        self.process.check()
        return await open_database(self, path)


@dataclass(frozen=True, slots=True)
class Lock:
    disk: ProcessDisk
    path: str

    def release(self) -> None:
        if self.disk.disk.locks.get(self.path) is self.disk.process:
            del self.disk.disk.locks[self.path]


class Lane:
    """A thread of one's own: calls in order, one at a time."""

    def __init__(self) -> None:
        self.free_at = 0.0
        self.calls: list[Call] = []


class DiskFile:
    def __init__(self, disk: ProcessDisk, path: str, inode: Inode, lane: Lane | None) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._lane = lane
        self._is_open = True

    async def read(self, offset: int, size: int) -> bytes:
        found: bytes = await self._perform(
            f"read {self._path} {offset}+{size}", lambda: self._inode.read(offset, size)
        )
        return found

    async def write(self, offset: int, pieces: Sequence[Buffer], *, sync: bool = False) -> None:
        data = b"".join(pieces)
        disk, inode = self._disk.disk, self._inode
        cut = disk.random.randint(0, len(data))

        def write() -> None:
            # The pieces may not change before the call returns; the copy above would hide it.
            assert data == b"".join(pieces), f"{self._path}: the pieces changed during the write"
            disk.write(inode, offset, data)

        steps: list[Step] = [write]
        if sync:
            steps.append(lambda: disk.sync(inode))
        name = f"write{'+sync' if sync else ''} {self._path} {offset}+{len(data)}"
        await self._perform(
            f"{name} {zlib.crc32(data):08x}", *steps, torn=lambda: inode.write(offset, data[:cut])
        )

    async def sync(self) -> None:
        # With a thread of its own everything before has been applied when the sync's turn comes.
        snapshot = None if self._lane is not None else self._inode.snapshot()
        await self._perform(
            f"sync {self._path}", lambda: self._disk.disk.sync(self._inode, snapshot)
        )

    async def truncate(self, size: int) -> None:
        await self._perform(
            f"truncate {self._path} {size}", lambda: self._disk.disk.truncate(self._inode, size)
        )

    async def size(self) -> int:
        size: int = await self._perform(f"size {self._path}", lambda: len(self._inode.cache))
        return size

    async def close(self) -> None:
        self._is_open = False

    async def _perform(self, name: str, *steps: Step, torn: Step | None = None) -> Any:
        if not self._is_open:
            raise OSError(errno.EBADF, f"{self._path} is closed")
        return await self._disk.perform(name, *steps, torn=torn, lane=self._lane)


__all__ = ["DiskFaults", "DiskFile", "ProcessDisk", "SimulatedDisk", "parent_of"]
