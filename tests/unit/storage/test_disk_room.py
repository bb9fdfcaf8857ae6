"""A full disk is reported while any part meets it, and work is tried again until it succeeds."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from anabranch.runtime.system import system_world
from anabranch.storage.disk_room import DiskRoom
from tests.faulty_disk import faulty


def room_on(directory: Path, reserve: int = 0) -> DiskRoom:
    world, _ = faulty(system_world(directory))
    return DiskRoom(world.disk, reserve_bytes=reserve, retry_seconds=0.0001, on_change=lambda: None)


class Work:
    """Fails so often, then succeeds."""

    def __init__(self, failures: int, error: int = errno.ENOSPC) -> None:
        self.failures = failures
        self.error = error
        self.gate = asyncio.Event()

    async def __call__(self) -> str:
        if self.failures:
            self.failures -= 1
            raise OSError(self.error, "no")
        return "done"


def test_work_is_tried_until_there_is_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        room, work = room_on(tmp_path), Work(5)
        assert await room.insist("something", work) == "done"
        assert work.failures == 0
        assert room.reason is None

    asyncio.run(scenario())


def test_the_disk_is_full_while_any_report_stands(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = room_on(tmp_path)
        one, two = Work(10**9), Work(10**9)
        tasks = [
            asyncio.create_task(room.insist("one", one)),
            asyncio.create_task(room.insist("two", two)),
        ]
        await asyncio.sleep(0)
        assert room.reason is not None
        two.failures = 0
        assert await tasks[1] == "done"
        assert room.reason is not None
        assert "no room for one" in room.reason
        one.failures = 0
        assert await tasks[0] == "done"
        assert room.reason is None

    asyncio.run(scenario())


def test_other_errors_are_not_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        room, work = room_on(tmp_path), Work(5, errno.EIO)
        with pytest.raises(OSError, match="no"):
            await room.insist("something", work)
        assert work.failures == 4
        assert room.reason is None

    asyncio.run(scenario())


def test_an_ending_process_does_not_insist(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = room_on(tmp_path)
        room.is_patient = False
        with pytest.raises(OSError, match="no"):
            await room.insist("something", Work(5))

    asyncio.run(scenario())


def test_less_than_the_reserve_is_full(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, disk = faulty(system_world(tmp_path))
        changes: asyncio.Queue[str | None] = asyncio.Queue()
        room = DiskRoom(
            world.disk,
            reserve_bytes=1000,
            retry_seconds=0.0001,
            on_change=lambda: changes.put_nowait(room.reason),
        )
        disk.free = 10
        check = asyncio.create_task(room.check_reserve())
        reason = await changes.get()
        assert reason is not None
        assert "10 bytes are free, the reserve is 1000" in reason
        disk.free = 1000
        await check
        assert room.reason is None

    asyncio.run(scenario())
