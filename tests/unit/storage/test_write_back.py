"""Ledger files are written in large pieces, in order, and only when it is worth it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from anabranch.runtime.system import system_world
from anabranch.storage.disk_room import DiskRoom
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_handles import FileHandles
from anabranch.storage.ledger_table import Access, LedgerState
from anabranch.storage.record_codec import Run
from anabranch.storage.tail_cache import TailCache
from anabranch.storage.write_back import WriteBack
from tests.faulty_disk import FaultyDisk, faulty
from tests.ledger_contract import numbered


class Bench:
    def __init__(self, directory: Path, owed_bytes: int = 1 << 20) -> None:
        world, self.disk = faulty(system_world(directory))
        self.config = EngineConfig(owed_bytes=owed_bytes)
        self.cache = TailCache(1 << 20)
        self.errors: list[str] = []
        self.handles = FileHandles(world.disk, 4)
        self.write_back = WriteBack(
            self.config,
            self.handles,
            self.cache,
            DiskRoom(world.disk, reserve_bytes=0, retry_seconds=0.001, on_change=lambda: None),
            on_room=lambda: None,
            on_error=self.errors.append,
        )

    def confirm(self, state: LedgerState, count: int, size: int = 1000) -> None:
        run = Run(state.ledger, state.last_confirmed + 1, 1)
        run.pack(numbered(state.last_confirmed + 1, count, size))
        run.finish()
        state.confirm(run)
        self.write_back.owe(state, run.size)

    def writes(self) -> int:
        return sum(what == "write" for what, _ in self.disk.calls)


async def bench_in(directory: Path, owed_bytes: int = 1 << 20) -> Bench:
    bench = Bench(directory, owed_bytes)
    await FaultyDisk(system_world(directory).disk).make_directory(bench.config.ledger_directory)
    return bench


def test_little_is_kept_back_and_much_is_written_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        bench = await bench_in(tmp_path)
        state = LedgerState(1, {})
        writing = asyncio.create_task(bench.write_back.run_writing())
        bench.confirm(state, 20)
        for _ in range(10):
            await asyncio.sleep(0)
        assert bench.writes() == 0
        assert bench.write_back.owed_bytes == 20 * 1048
        bench.confirm(state, 200)
        await bench.write_back.write_all(state)
        assert state.written_entries == 220
        assert state.written_bytes == 220 * 1048
        assert bench.write_back.owed_bytes == 0
        assert bench.writes() <= 2
        assert state.cached == len(state.chunks)
        writing.cancel()
        await bench.handles.close()

    asyncio.run(scenario())


def test_many_ledgers_that_owe_little_are_written_when_they_owe_much_together(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        bench = await bench_in(tmp_path, owed_bytes=100_000)
        states = [LedgerState(ledger, {}) for ledger in range(1, 11)]
        for state in states:
            bench.confirm(state, 20)
        assert bench.write_back.is_full
        writing = asyncio.create_task(bench.write_back.run_writing())
        async with asyncio.timeout(20):
            while bench.write_back.owed_bytes > 50_000:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.001)
        assert not bench.write_back.is_full
        assert states[0].written_entries == 20, "those that owe for longest come first"
        assert states[-1].written_entries == 0
        writing.cancel()
        await bench.handles.close()

    asyncio.run(scenario())


def test_a_deleted_ledger_owes_nothing_and_gets_no_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        bench = await bench_in(tmp_path)
        state = LedgerState(1, {})
        bench.confirm(state, 100)
        state.access = Access.DELETED
        bench.write_back.forget(state)
        bench.cache.forget(state)
        await bench.write_back.write_all(state)
        assert bench.write_back.owed_bytes == 0
        assert not (tmp_path / bench.config.ledger_path(1)).exists()

    asyncio.run(scenario())


def test_a_write_that_fails_is_reported_once_and_not_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        bench = await bench_in(tmp_path)
        bench.disk.fail(lambda what, path: what == "write")
        state = LedgerState(1, {})
        bench.confirm(state, 100)
        await bench.write_back.run_writing()
        assert len(bench.errors) == 1
        assert state.written_entries == 0
        await bench.handles.close()

    asyncio.run(scenario())
