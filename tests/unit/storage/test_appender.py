"""How ledgers follow one another, and what a failed append means."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from anabranch.errors import Fenced, Full, Unavailable
from anabranch.storage.appender import RollConfig
from anabranch.storage.ledger import Draft, LedgerEnd
from anabranch.storage.managed_ledger import ManagedLedger, ManagedLedgerConfig
from anabranch.storage.memory_ledger import MemoryLedgerStore, MemoryLedgerWriter
from anabranch.topics.positions import Position
from tests.managed_world import NAME, ManagedWorld, drafts, read_all, run, small, turns, until


class Stubborn(MemoryLedgerStore):
    """Fails to recover, once."""

    failures = 1

    async def recover(self, ledger: int) -> LedgerEnd:
        if self.failures:
            self.failures -= 1
            raise Unavailable("the engine has stopped")
        return await super().recover(ledger)


def sizes(managed: ManagedLedger) -> list[int]:
    return [info.entries for info in managed.ledgers()]


def test_a_full_ledger_is_followed_by_another() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await world.process().load(small(max_entries=3))
        for number in range(7):
            await managed.append(drafts(f"m{number}"))
        assert sizes(managed) == [3, 3, 1]
        stored = await world.records.load(NAME)
        assert stored is not None
        assert [info.is_open for info in stored[0].ledgers] == [False, False, True]
        assert stored[0].ledgers[0].size_bytes == len("m0m1m2")

    run(scenario())


def test_a_ledger_is_full_by_its_bytes_too() -> None:
    async def scenario() -> None:
        config = ManagedLedgerConfig(RollConfig(max_bytes=10))
        managed = await ManagedWorld().process().load(config)
        for _ in range(4):
            await managed.append(drafts("12345"))
        await turns()
        assert sizes(managed) == [2, 2, 0]

    run(scenario())


def test_an_old_ledger_is_closed_and_no_new_one_made_for_nothing() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await world.process().load(small(max_age_seconds=0.0))
        await managed.append(drafts("a"))
        await until(lambda: not managed.record.unclosed)
        assert len(world.disk.ledgers) == 1
        assert await managed.append(drafts("b")) == Position(2, 0)

    run(scenario())


def test_futures_resolve_in_the_order_of_their_calls() -> None:
    async def scenario() -> None:
        managed = await ManagedWorld().process().load(small(max_entries=4))
        done: list[int] = []
        futures = [managed.submit(drafts(f"m{number}")) for number in range(30)]
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: done.append(number))  # type: ignore[misc]
        positions = await asyncio.gather(*futures)
        await turns(2)
        assert done == list(range(30))
        assert positions == sorted(positions)
        assert await read_all(managed) == [f"m{number}" for number in range(30)]

    run(scenario())


def test_the_queue_for_a_new_ledger_is_bounded() -> None:
    async def scenario() -> None:
        managed = await ManagedWorld().process().load(small(max_queued_bytes=10))
        large = managed.submit(drafts("x" * 100))  # alone, whatever its size
        with pytest.raises(Unavailable, match="100 bytes wait for a new ledger, the limit is 10"):
            managed.submit(drafts("y"))
        await large
        await managed.append(drafts("y"))

    run(scenario())


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_failed_append_gives_its_ledger_up_and_is_not_repeated(kept: int) -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await process.load()
        await managed.append(drafts("a"))
        process.store.fail_next_commit(kept_entries=kept)
        failing = [managed.submit(drafts("b")), managed.submit(drafts("c"))]
        results = await asyncio.gather(*failing, return_exceptions=True)
        assert [type(result) for result in results] == [Unavailable, Unavailable]
        with pytest.raises(Unavailable, match="recovering"):
            managed.submit(drafts("overtaking"))
        await turns()
        assert await managed.append(drafts("d")) == Position(2, 0)
        # What did reach the disk is there, a gapless prefix, and once.
        assert await read_all(managed) == ["a", *["b", "c"][:kept], "d"]
        assert managed.ended_by is None

    run(scenario())


def test_a_recovery_that_fails_is_tried_again_by_the_next_submission() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        process.store = store = Stubborn(world.disk)
        managed = await process.load()
        await managed.append(drafts("a"))
        store.fail_next_commit(kept_entries=1)
        with pytest.raises(Unavailable):
            await managed.append(drafts("b"))
        await turns()
        assert managed.record.unclosed
        assert await managed.append(drafts("c")) == Position(2, 0)
        assert await read_all(managed) == ["a", "b", "c"]

    run(scenario())


def test_no_room_refuses_and_room_resumes() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await world.process().load()
        world.disk.is_full = True
        with pytest.raises(Full):  # no ledger can be made
            await managed.append(drafts("a"))
        world.disk.is_full = False
        await managed.append(drafts("b"))
        world.disk.is_full = True
        with pytest.raises(Full):  # the ledger is there, but takes nothing
            managed.submit(drafts("c"))
        assert await read_all(managed) == ["b"]
        world.disk.is_full = False
        assert await managed.append(drafts("d")) == Position(1, 1)

    run(scenario())


def test_an_append_under_way_at_the_takeover_is_fenced() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        old = await process.load()
        await old.append(drafts("a"))
        process.store.pause()
        pending = old.submit(drafts("b"))
        new = await world.process().load()
        process.store.resume()
        with pytest.raises(Fenced):
            await pending
        assert isinstance(old.ended_by, Fenced)
        assert await read_all(new) == ["a"]

    run(scenario())


def test_a_roll_over_under_way_at_the_takeover_is_fenced() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        old = await process.load(small(max_entries=1))
        process.store.pause()
        pending = [old.submit(drafts("a")), old.submit(drafts("b"))]
        await turns()
        new = await world.process().load()
        process.store.resume()
        results = await asyncio.gather(*pending, return_exceptions=True)
        assert [type(result) for result in results] == [Fenced, Fenced]
        assert await read_all(new) == []

    run(scenario())


def test_a_ledger_that_the_engine_closes_is_followed_by_another() -> None:
    class Closing(MemoryLedgerStore):
        async def create(self, properties: Mapping[str, str]) -> MemoryLedgerWriter:
            self.last = await super().create(properties)
            return self.last

    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        process.store = store = Closing(world.disk)
        managed = await process.load()
        await managed.append(drafts("a"))
        await store.last.close()
        assert await managed.append(drafts("b")) == Position(2, 0)
        assert await read_all(managed) == ["a", "b"]

    run(scenario())


def test_what_waits_behind_a_failed_append_fails_with_it() -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await process.load(small(max_entries=2))
        await managed.append(drafts("a"))
        process.store.pause()
        filling = managed.submit(drafts("b"))  # the ledger is full, the next ones wait
        waiting = [managed.submit(drafts("c")), managed.submit(drafts("d"))]
        process.store.fail_next_commit()
        process.store.resume()
        results = await asyncio.gather(filling, *waiting, return_exceptions=True)
        assert [type(result) for result in results] == [Unavailable] * 3, "none overtakes"
        await turns()
        await managed.append(drafts("e"))
        assert await read_all(managed) == ["a", "e"]

    run(scenario())


def test_a_seal_that_cannot_recover_a_failed_ledger_leaves_it_to_the_next_try() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        process.store = store = Stubborn(world.disk)
        managed = await process.load()
        await managed.append(drafts("a"))
        store.pause()
        pending = managed.submit(drafts("b"))
        sealing = asyncio.create_task(managed.seal())
        await turns()
        store.fail_next_commit(kept_entries=1)
        store.resume()
        with pytest.raises(Unavailable):
            await pending
        with pytest.raises(Unavailable, match="the engine has stopped"):
            await sealing
        await managed.append(drafts("c"))
        assert await managed.seal() == Position(2, 0)
        assert await read_all(managed) == ["a", "b", "c"]

    run(scenario())


def test_appends_fenced_by_our_own_recovery_do_not_end_the_tenure() -> None:
    class OneGroupEach(MemoryLedgerStore):
        """Every submission has its own commit, and the test decides what becomes of it."""

        is_manual = False

        def enqueue(self, writer: MemoryLedgerWriter, drafts: list[Draft]) -> asyncio.Future[None]:
            if not self.is_manual:
                return super().enqueue(writer, drafts)
            self.under_way.append(asyncio.get_running_loop().create_future())
            return self.under_way[-1]

        under_way: ClassVar[list[asyncio.Future[None]]] = []

        async def recover(self, ledger: int) -> LedgerEnd:
            end = await super().recover(ledger)
            self.under_way[1].set_exception(Fenced("recovered"))
            return end

    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        process.store = store = OneGroupEach(world.disk)
        managed = await process.load()
        await managed.append(drafts("a"))
        store.is_manual = True
        failing = [managed.submit(drafts("b")), managed.submit(drafts("c"))]
        store.under_way[0].set_exception(Unavailable("lost"))
        results = await asyncio.gather(*failing, return_exceptions=True)
        assert [type(result) for result in results] == [Unavailable, Unavailable]
        await turns()
        store.is_manual = False
        await managed.append(drafts("d"))
        assert await read_all(managed) == ["a", "d"]

    run(scenario())


def test_a_submission_the_engine_refuses_was_not_begun() -> None:
    class Busy(MemoryLedgerStore):
        is_busy = False

        def enqueue(self, *arguments: Any) -> asyncio.Future[None]:
            if self.is_busy:
                raise Unavailable("too much waits for the disk")
            return super().enqueue(*arguments)

    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        process.store = store = Busy(world.disk)
        managed = await process.load()
        await managed.append(drafts("a"))
        store.is_busy = True
        with pytest.raises(Unavailable, match="too much waits"):
            managed.submit(drafts("b"))
        store.is_busy = False
        assert (await managed.append(drafts("c"))).ledger == 1, "the ledger is still good"
        assert await read_all(managed) == ["a", "c"]

    run(scenario())


def test_a_queue_that_the_new_ledger_refuses_fails_as_a_whole() -> None:
    class Small(MemoryLedgerStore):
        def enqueue(self, writer: MemoryLedgerWriter, drafts: list[Draft]) -> asyncio.Future[None]:
            if len(drafts[0].body) > 3:
                raise Unavailable("too large for now")
            return super().enqueue(writer, drafts)

    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        process.store = Small(world.disk)
        managed = await process.load()
        futures = [managed.submit(drafts(text)) for text in ("a", "large", "b")]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(result) for result in results] == [Position, Unavailable, Unavailable]
        assert await read_all(managed) == ["a"]

    run(scenario())


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_roll_over_whose_save_has_an_unknown_outcome_loses_nothing(is_applied: bool) -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await process.load(small(max_entries=2))
        await managed.append(drafts("a"))
        world.records.fail_next_save(is_applied=is_applied)
        await managed.append(drafts("b"))
        with pytest.raises(Unavailable):
            await managed.append(drafts("c"))
        await managed.append(drafts("d"))
        assert await read_all(managed) == ["a", "b", "d"]
        process.crash()
        assert await read_all(await world.process().load()) == ["a", "b", "d"]

    run(scenario())
