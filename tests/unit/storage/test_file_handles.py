"""Open files stay few, are shared while used, and are never closed under their users."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from anabranch.runtime.system import system_world
from anabranch.storage.file_handles import FileHandles


def test_the_one_unused_for_longest_is_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        handles = FileHandles(system_world(tmp_path).disk, 2)
        for name in ("a", "b", "a", "c"):
            async with handles.use(name, create=True) as file:
                await file.write(0, [name.encode()])
        assert len(handles) == 2
        assert list(handles._handles) == ["a", "c"]
        await handles.close()
        assert len(handles) == 0

    asyncio.run(scenario())


def test_files_in_use_are_not_closed_though_there_are_too_many(tmp_path: Path) -> None:
    async def scenario() -> None:
        handles = FileHandles(system_world(tmp_path).disk, 1)
        async with (
            handles.use("a", create=True) as a,
            handles.use("b", create=True) as b,
            handles.use("a") as again,
        ):
            assert again is a
            await a.write(0, [b"1"])
            await b.write(0, [b"2"])
            assert await a.read(0, 1) == b"1"
        assert len(handles) == 1
        await handles.close()

    asyncio.run(scenario())


def test_two_that_open_at_once_share_one_handle(tmp_path: Path) -> None:
    async def scenario() -> None:
        handles = FileHandles(system_world(tmp_path).disk, 5)
        files = []

        async def use() -> None:
            async with handles.use("a", create=True) as file:
                files.append(file)
                await file.size()

        await asyncio.gather(*[use() for _ in range(5)])
        assert all(file is files[0] for file in files)
        await handles.close()

    asyncio.run(scenario())


def test_a_dropped_file_is_closed_by_its_last_user(tmp_path: Path) -> None:
    async def scenario() -> None:
        handles = FileHandles(system_world(tmp_path).disk, 5)
        async with handles.use("a", create=True) as file:
            await handles.drop("a")
            await file.write(0, [b"still open"])
            async with handles.use("a") as another:
                assert another is not file
        with pytest.raises(OSError, match="Bad file descriptor"):
            await file.size()
        await handles.close()

    asyncio.run(scenario())


def test_what_does_not_exist_is_not_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        handles = FileHandles(system_world(tmp_path).disk, 5)
        with pytest.raises(FileNotFoundError):
            async with handles.use("nothing"):
                pass
        assert len(handles) == 0

    asyncio.run(scenario())
