"""Group commit: who shares a commit, in what order, where it lands, and when it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from crc32c import crc32c

from anabranch.errors import InvalidInput, Unavailable
from anabranch.runtime.world import Buffer
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.journal import CommitFuture, Group, Journal
from anabranch.storage.ledger import Draft
from anabranch.storage.record_codec import CREATE, GROUP, HEADER_BYTES, Run, measure, scan_journal

FILE_BYTES = 4096


class MemoryFile:
    """Only what a journal uses. Commits end when the test says so."""

    def __init__(self) -> None:
        self.data = bytearray(FILE_BYTES)
        self.writes: list[tuple[int, int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.error: OSError | None = None
        self.under_way = 0

    async def write(self, offset: int, pieces: Sequence[Buffer], *, sync: bool = False) -> None:
        assert sync
        assert self.under_way == 0, "two commits at once"
        self.under_way += 1
        self.begun.set()
        await self.gate.wait()
        self.under_way -= 1
        if self.error is not None:
            raise self.error
        data = b"".join(pieces)
        assert offset + len(data) <= FILE_BYTES
        self.data[offset : offset + len(data)] = data
        self.writes.append((offset, len(data)))


class MemoryFiles:
    def __init__(self) -> None:
        self.files: dict[int, MemoryFile] = {}
        self.entries_limit = FILE_BYTES
        self.last_ready = 2

    async def file_for(self, generation: int) -> Any:
        return self.files.setdefault(generation, MemoryFile())


class Bench:
    def __init__(self, **limits: Any) -> None:
        self.files = MemoryFiles()
        self.files.files[1] = MemoryFile()
        self.committed: list[Group] = []
        self.room = 0
        self.errors: list[str] = []
        self.journal = Journal(
            replace(EngineConfig(journal_file_bytes=FILE_BYTES), **limits),
            self.files,
            generation=1,
            on_commit=self.committed.append,
            on_room=self.count_room,
            on_error=self.fail,
        )

    def count_room(self) -> None:
        self.room += 1

    def fail(self, reason: str) -> None:
        self.errors.append(reason)
        self.journal.stop(reason)

    def submit(self, ledger: int, entry: int, size: int = 10) -> CommitFuture:
        body = bytes(size)
        drafts = [Draft(body, crc32c(body))]
        group = self.journal.group_for(measure(drafts, FILE_BYTES))
        run = group.runs.get(ledger)
        if run is None:
            run = group.runs[ledger] = Run(ledger, entry, group.generation)
        run.pack(drafts)
        return group.durable

    def records(self, generation: int = 1) -> list[tuple[int, int, int, int]]:
        data = bytes(self.files.files[generation].data)
        scan = scan_journal(data, 0, len(data), generation)
        return [(r.kind, r.ledger, r.first, r.count) for r in scan.records]


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        await asyncio.wait_for(scenario(), 20)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(whole())


def test_everything_of_one_turn_shares_a_commit() -> None:
    async def scenario() -> None:
        bench = Bench()
        commits = asyncio.create_task(bench.journal.run_commits())
        await asyncio.sleep(0)
        futures = [bench.submit(ledger, 0) for ledger in (5, 6, 7)]
        assert futures[0] is futures[1] is futures[2]
        await futures[0]
        assert bench.journal.groups == 1
        assert bench.records() == [
            (GROUP, 0, 3 * 58, 1),
            (1, 5, 0, 1),
            (1, 6, 0, 1),
            (1, 7, 0, 1),
        ]
        commits.cancel()

    run(scenario)


def test_what_arrives_during_a_commit_is_the_next_group() -> None:
    async def scenario() -> None:
        bench = Bench()
        file = bench.files.files[1]
        file.gate.clear()
        commits = asyncio.create_task(bench.journal.run_commits())
        first = bench.submit(5, 0)
        await file.begun.wait()
        second, third = bench.submit(5, 1), bench.submit(5, 2)
        assert second is third
        assert second is not first
        for _ in range(5):
            await asyncio.sleep(0)
        assert not first.done()
        file.gate.set()
        await second
        assert first.done()
        assert file.writes == [(0, 106), (106, 164)]
        assert [len(group.runs) for group in bench.committed] == [1, 1]
        assert bench.journal.pending_bytes == 0
        commits.cancel()

    run(scenario)


def test_groups_do_not_grow_beyond_their_bound() -> None:
    async def scenario() -> None:
        bench = Bench(group_bytes=200)
        futures = [bench.submit(5, entry) for entry in range(6)]
        assert len({id(future) for future in futures}) == 3
        commits = asyncio.create_task(bench.journal.run_commits())
        await futures[-1]
        assert [size for _, size in bench.files.files[1].writes] == [164, 164, 164]
        commits.cancel()

    run(scenario)


def test_a_group_that_does_not_fit_goes_to_the_next_file_and_says_where_this_one_ended() -> None:
    async def scenario() -> None:
        bench = Bench()
        commits = asyncio.create_task(bench.journal.run_commits())
        await bench.submit(5, 0, size=3000)
        await bench.submit(5, 1, size=3000)
        assert bench.files.files[1].writes == [(0, 3096)]
        assert bench.files.files[2].writes == [(0, 3096)]
        data = bytes(bench.files.files[2].data)
        group, entry = scan_journal(data, 0, len(data), 2).records
        assert (group.kind, group.ledger, group.time_ms) == (GROUP, 0, 3096)
        assert (entry.ledger, entry.first) == (5, 1)
        commits.cancel()

    run(scenario)


def test_nothing_is_accepted_that_has_no_file_to_go_to() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.files.last_ready = 1
        bench.submit(5, 0, size=3000)
        assert not bench.journal.has_room(3000)
        with pytest.raises(Unavailable, match="no journal file is ready"):
            bench.submit(5, 1, size=3000)
        bench.files.last_ready = 2
        assert bench.journal.has_room(3000)
        bench.submit(5, 1, size=3000)

    run(scenario)


def test_space_is_kept_for_operations() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.files.last_ready = 1
        bench.files.entries_limit = FILE_BYTES - 200
        bench.submit(5, 0, size=3700)
        with pytest.raises(Unavailable):
            bench.submit(5, 1, size=100)
        assert bench.journal.has_place_for_operation(HEADER_BYTES)
        bench.journal.submit_operation(CREATE, 6, 0, 0, b"{}", lambda: None)

    run(scenario)


def test_pending_bytes_are_bounded() -> None:
    async def scenario() -> None:
        bench = Bench(pending_bytes=300)
        durable = bench.submit(5, 0)
        bench.submit(5, 1)
        bench.submit(5, 2)
        assert not bench.journal.has_room(148)
        with pytest.raises(Unavailable, match="wait for room"):
            bench.submit(5, 3, size=100)
        commits = asyncio.create_task(bench.journal.run_commits())
        await durable
        assert bench.room > 0
        bench.submit(5, 3, size=1000)  # alone it may be larger than the bound
        commits.cancel()

    run(scenario)


def test_operations_follow_the_entries_of_their_group_and_are_applied_in_order() -> None:
    async def scenario() -> None:
        bench = Bench()
        applied: list[int] = []
        for number in range(3):
            bench.journal.submit_operation(
                CREATE, 10 + number, 0, 0, b"{}", partial(applied.append, number)
            )
        durable = bench.submit(5, 0)
        commits = asyncio.create_task(bench.journal.run_commits())
        await durable
        for _, apply in bench.committed[0].operations:
            apply()
        assert applied == [0, 1, 2]
        assert [kind for kind, *_ in bench.records()] == [GROUP, 1, CREATE, CREATE, CREATE]
        commits.cancel()

    run(scenario)


def test_a_failed_write_ends_the_journal() -> None:
    async def scenario() -> None:
        bench = Bench()
        file = bench.files.files[1]
        file.error = OSError(5, "Input/output error")
        file.gate.clear()
        commits = asyncio.create_task(bench.journal.run_commits())
        first = bench.submit(5, 0)
        await file.begun.wait()
        second = bench.submit(5, 1)
        file.gate.set()
        for durable in (first, second):
            with pytest.raises(Unavailable, match="outcome unknown"):
                await durable
        with pytest.raises(Unavailable, match="Input/output error"):
            bench.submit(5, 2)
        assert len(bench.errors) == 1
        assert not bench.committed
        assert bench.journal.pending_bytes == 0
        await bench.journal.drain()
        commits.cancel()

    run(scenario)


def test_what_was_accepted_is_committed_after_the_journal_refuses_more() -> None:
    async def scenario() -> None:
        bench = Bench()
        durable = bench.submit(5, 0)
        bench.journal.refuse("closing")
        with pytest.raises(Unavailable, match="closing"):
            bench.submit(5, 1)
        commits = asyncio.create_task(bench.journal.run_commits())
        await bench.journal.drain()
        assert durable.done()
        commits.cancel()

    run(scenario)


def test_what_can_never_fit_is_refused_for_good() -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidInput, match="do not fit a journal file"):
            Bench().journal.group_for(FILE_BYTES - HEADER_BYTES + 1)

    run(scenario)


def test_a_shared_future_cannot_be_cancelled_but_each_wait_can() -> None:
    async def scenario() -> None:
        durable = CommitFuture()
        assert durable.cancel() is False

        async def wait() -> None:
            await durable

        impatient, patient = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await durable
        durable.set_result(None)
        await patient
        await durable

    run(scenario)
