"""The local engine keeps the contract, and what it promises beyond it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import Corrupt, InvalidInput, Unavailable
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import Draft, Submission
from tests.ledger_contract import LedgerContract, check_holds, numbered, read_all
from tests.ledger_engines import TINY, FileEngine


@pytest.fixture
def engine(tmp_path: Path) -> FileEngine:
    return FileEngine(tmp_path)


class TestFileLedgers(LedgerContract):
    pass


def run_on(
    engine: FileEngine, scenario: Callable[[FileLedgerStore], Coroutine[Any, Any, None]]
) -> None:
    async def whole() -> None:
        try:
            await scenario(await engine.start())
        finally:
            await engine.shut_down()

    asyncio.run(whole())


def bytes_on_disk(directory: Path) -> int:
    return sum(path.stat().st_size for path in (directory / "storage").rglob("*") if path.is_file())


def test_deleting_frees_the_disk(engine: FileEngine) -> None:
    async def scenario(store: FileLedgerStore) -> None:
        writer = await store.create({})
        for number in range(0, 3000, 100):
            await writer.append(numbered(number, 100, size=500))
        await writer.close()
        before = bytes_on_disk(engine.directory)
        await store.delete(writer.ledger)
        assert before - bytes_on_disk(engine.directory) > 1_000_000

    run_on(engine, scenario)


def test_files_and_memory_stay_within_their_bounds(engine: FileEngine) -> None:
    async def scenario(store: FileLedgerStore) -> None:
        writers = [await store.create({}) for _ in range(20)]
        for number in range(0, 500, 25):
            for writer in writers:
                await writer.append(numbered(number, 25))
        for writer in writers:
            assert len(await read_all(writer)) == 500
        stats = store.stats()
        assert stats["journal_files"] <= TINY.journal_files
        assert stats["open_files"] <= TINY.open_files
        assert stats["cache_bytes"] <= TINY.cache_bytes
        assert stats["owed_bytes"] <= TINY.owed_bytes
        assert stats["pending_bytes"] == 0
        assert stats["checkpoints"] > 5
        assert stats["state"] == "writing"
        assert stats["build_mode"] in ("compiled", "interpreted", "mixed")

    run_on(engine, scenario)


def test_one_loop_turn_costs_one_commit(engine: FileEngine) -> None:
    async def scenario(store: FileLedgerStore) -> None:
        writers = [await store.create({}) for _ in range(5)]
        before = store.stats()["groups"]
        submissions = [writer.submit(numbered(0, 3)) for writer in writers]
        for submission in submissions:
            await submission.durable
        assert store.stats()["groups"] == before + 1

    run_on(engine, scenario)


def test_back_pressure_refuses_submissions_and_lets_appends_wait(tmp_path: Path) -> None:
    engine = FileEngine(tmp_path, replace(TINY, pending_bytes=2000, owed_bytes=2000))

    async def scenario(store: FileLedgerStore) -> None:
        writer = await store.create({})
        accepted: list[Submission] = []
        with pytest.raises(Unavailable, match="wait for room"):
            accepted += (writer.submit(numbered(number, 1)) for number in range(10_000))
        count = accepted[-1].first_entry + 1
        # They wait for each other, so which comes first is open; that all come is not.
        places = await asyncio.gather(*[writer.append(numbered(count + n, 1)) for n in range(200)])
        assert sorted(places) == list(range(count, count + 200))
        entries = await read_all(writer)
        assert sorted(entry.time_ms for entry in entries) == list(range(count + 200))
        assert [entry.time_ms for entry in entries[:count]] == list(range(count))

    run_on(engine, scenario)


def test_what_can_never_be_stored_is_refused_and_changes_nothing(engine: FileEngine) -> None:
    async def scenario(store: FileLedgerStore) -> None:
        writer = await store.create({})
        await writer.append(numbered(0, 1))
        for drafts in (
            [*numbered(1, 3), Draft(b"short", 0, prefix=9)],
            numbered(1, 1, size=TINY.journal_file_bytes),
            numbered(1, 1000),  # more than a journal file holds
        ):
            with pytest.raises(InvalidInput):
                writer.submit(drafts)
        assert await writer.append(numbered(1, 1)) == 1
        check_holds(await read_all(writer), writer.ledger, numbered(0, 2))

    run_on(engine, scenario)


def test_a_wrong_checksum_is_noticed_when_the_entry_is_read_from_disk(engine: FileEngine) -> None:
    async def scenario(store: FileLedgerStore) -> None:
        writer = await store.create({})
        await writer.append([*numbered(0, 1), Draft(b"body", 12345), *numbered(2, 1)])
        again = await engine.stop_and_restart()
        reader = await again.open(writer.ledger)
        with pytest.raises(Corrupt) as caught:
            await reader.read(1, max_entries=1, max_bytes=1)
        assert (caught.value.ledger, caught.value.entry) == (writer.ledger, 1)

    run_on(engine, scenario)


def test_nothing_can_be_done_with_a_closed_store(engine: FileEngine) -> None:
    async def scenario(store: FileLedgerStore) -> None:
        writer = await store.create({})
        await store.close()
        await store.close()
        with pytest.raises(Unavailable, match="closed"):
            writer.submit(numbered(0, 1))
        with pytest.raises(Unavailable, match="closed"):
            await store.create({})

    run_on(engine, scenario)


def test_what_is_submitted_before_a_close_survives_it(engine: FileEngine) -> None:
    async def scenario(store: FileLedgerStore) -> None:
        writer = await store.create({})
        submission = writer.submit(numbered(0, 20))
        again = await engine.stop_and_restart()
        assert submission.durable.done()
        check_holds(await read_all(await again.open(writer.ledger)), writer.ledger, numbered(0, 20))

    run_on(engine, scenario)


def test_a_mistake_in_a_background_task_stops_writing_instead_of_hanging(
    engine: FileEngine,
) -> None:
    async def scenario(store: FileLedgerStore) -> None:
        writer = await store.create({})

        def confirm(group: object) -> None:
            raise ZeroDivisionError("a mistake")

        store._journal._on_commit = confirm
        with pytest.raises(Unavailable, match="a mistake"):
            await writer.append(numbered(0, 1))

    run_on(engine, scenario)
