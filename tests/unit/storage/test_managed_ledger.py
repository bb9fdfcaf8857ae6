"""One owner after another, and what each of them can count on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from anabranch.errors import BadVersion, Closed, Fenced, NotFound, Sealed, Stale, Unavailable
from anabranch.storage.managed_ledger import ManagedLedger
from anabranch.storage.spans import LATEST
from anabranch.storage.trimming import LedgerPolicy
from anabranch.topics.positions import EARLIEST, Position
from tests.managed_world import (
    NAME,
    ManagedWorld,
    draft,
    drafts,
    numbered,
    read_all,
    run,
    small,
    texts,
    turns,
)


def test_what_was_answered_is_there_after_a_crash() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        first = world.process()
        managed = await first.load()
        for number in range(25):
            await managed.append(drafts(f"m{number}"))
        positions = managed.spans()
        first.crash()
        again = await world.process().load()
        assert await read_all(again) == [f"m{number}" for number in range(25)]
        assert again.spans() == positions
        assert again.epoch == 2

    run(scenario())


def test_positions_name_the_first_draft_and_submissions_are_not_split() -> None:
    async def scenario() -> None:
        managed = await ManagedWorld().process().load(small(max_entries=5))
        futures = [managed.submit(list(numbered(3, f"{n}-"))) for n in range(6)]
        found = await asyncio.gather(*futures)
        assert len({position.ledger for position in found}) == 3
        for number, position in enumerate(found):
            entries = await managed.read(position, max_entries=3, max_bytes=1 << 20)
            assert texts(entries) == [f"{number}-{n}" for n in range(3)]
            assert {entry.ledger for entry in entries} == {position.ledger}

    run(scenario())


def test_nothing_is_created_until_something_is_appended() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await world.process().load()
        assert managed.last_confirmed == EARLIEST
        assert managed.first_position is None
        assert await managed.read(EARLIEST, max_entries=10, max_bytes=100) == []
        assert world.disk.ledgers == {}

    run(scenario())


def test_an_unknown_ledger_is_not_made_by_asking() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        with pytest.raises(NotFound, match="no managed ledger"):
            await world.process().load(is_created=False)
        assert await world.records.load(NAME) is None

    run(scenario())


def test_two_owners_that_load_at_once_get_one_winner() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        both = await asyncio.gather(
            world.process().load(), world.process().load(), return_exceptions=True
        )
        assert sorted(type(result).__name__ for result in both) == ["BadVersion", "ManagedLedger"]
        assert any(isinstance(result, BadVersion) for result in both)

    run(scenario())


def test_a_zombie_is_answered_nothing_after_the_takeover() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        old = await world.process().load()
        await old.append(drafts("a"))
        cursor = await old.open_cursor("sub", EARLIEST)
        new = await world.process().load()
        with pytest.raises(Fenced):
            await old.append(drafts("zombie"))
        # Once is enough: whatever it tries now fails, reads of waiting entries too.
        with pytest.raises(Fenced):
            cursor.acknowledge([Position(1, 0)])
        with pytest.raises(Fenced):
            await old.trim()
        with pytest.raises(Fenced):
            await old.seal()
        with pytest.raises(Fenced):
            await old.wait_for_entries(LATEST)
        assert await read_all(new) == ["a"]
        assert new.cursors.names == ["sub"]

    run(scenario())


@pytest.mark.parametrize("action", ["seek", "trim", "seal", "create", "delete", "policy"])
def test_whatever_a_zombie_tries_first_is_refused(action: str) -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        old = await world.process().load()
        for number in range(15):
            await old.append(drafts(f"m{number}"))
        cursor = await old.open_cursor("sub", EARLIEST)
        cursor.acknowledge_cumulative(old.last_confirmed)
        await cursor.persist()
        new = await world.process().load()
        before = new.record
        actions: dict[str, Callable[[], Awaitable[object]]] = {
            "seek": lambda: cursor.seek(EARLIEST),
            "trim": old.trim,
            "seal": old.seal,
            "create": lambda: old.open_cursor("other", EARLIEST),
            "delete": old.delete,
            "policy": lambda: old.set_policy(LedgerPolicy(retention_minutes=5)),
        }
        with pytest.raises(Fenced):
            await actions[action]()
        assert isinstance(old.ended_by, Fenced)
        stored = await world.records.load(NAME)
        assert stored is not None
        assert stored[0] == before
        assert len(await read_all(new)) == 15
        assert await world.records.cursor_names(NAME) == ["sub"]
        assert new.cursors.all()[0].backlog == 0

    run(scenario())


def test_a_zombie_that_is_rolling_over_cannot_add_its_ledger() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        old = await world.process().load(small(max_entries=2))
        await old.append(drafts("a"))
        new = await world.process().load()
        await new.append(drafts("b"))
        with pytest.raises(Fenced):
            await old.append(drafts("c", "d"))
        assert await read_all(new) == ["a", "b"]

    run(scenario())


def test_a_waiting_reader_is_told_of_new_entries_and_of_the_end() -> None:
    async def scenario() -> None:
        managed = await ManagedWorld().process().load()
        waiting = asyncio.create_task(managed.wait_for_entries(managed.last_confirmed))
        await asyncio.sleep(0)
        assert not waiting.done()
        position = await managed.append(drafts("a"))
        await waiting
        await managed.wait_for_entries(EARLIEST)
        at_the_end = asyncio.create_task(managed.wait_for_entries(position))
        cancelled = asyncio.create_task(managed.wait_for_entries(position))
        await asyncio.sleep(0)
        cancelled.cancel()
        await managed.seal()
        with pytest.raises(Sealed, match="sealed at 1:0"):
            await at_the_end

    run(scenario())


def test_entries_are_never_read_before_they_are_durable() -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await process.load()
        await managed.append(drafts("a"))
        process.store.pause()
        future = managed.submit(drafts("b"))
        await asyncio.sleep(0)
        assert await read_all(managed) == ["a"]
        assert managed.last_confirmed == Position(1, 0)
        process.store.resume()
        assert await future == Position(1, 1)
        assert await read_all(managed) == ["a", "b"]

    run(scenario())


def test_reads_keep_to_their_limits_across_ledgers() -> None:
    async def scenario() -> None:
        managed = await ManagedWorld().process().load(small(max_entries=2))
        for number in range(6):
            await managed.append(drafts(f"{number}" * 10))
        few = await managed.read(EARLIEST, max_entries=5, max_bytes=1000)
        assert [entry.entry for entry in few] == [0, 1, 0, 1, 0]
        assert len(await managed.read(EARLIEST, max_entries=100, max_bytes=35)) == 3
        assert len(await managed.read(EARLIEST, max_entries=100, max_bytes=20)) == 2
        assert len(await managed.read(EARLIEST, max_entries=100, max_bytes=1)) == 1
        assert await managed.read(managed.last_confirmed.next(), max_entries=1, max_bytes=9) == []
        assert await managed.read(LATEST, max_entries=1, max_bytes=9) == []
        # The next ledger begins with an entry too large for what is left of the room.
        await managed.append(drafts("x" * 100))
        found = await managed.read(spans_at(managed, 4), max_entries=100, max_bytes=60)
        assert [len(entry.body) for entry in found] == [10, 10]

    run(scenario())


def spans_at(managed: ManagedLedger, ordinal: int) -> Position:
    return managed.spans().at(ordinal)


def test_time_is_found_across_ledgers() -> None:
    async def scenario() -> None:
        managed = await ManagedWorld().process().load(small(max_entries=2))
        for time_ms in (10, 20, 30, 40, 50):
            await managed.append([draft("x", time_ms)])
        spans = managed.spans()
        assert await managed.find_by_time(0) == spans.at(0)
        assert await managed.find_by_time(31) == spans.at(3)
        assert await managed.find_by_time(50) == spans.at(4)
        assert await managed.find_by_time(51) is None

    run(scenario())


def test_a_sealed_ledger_takes_nothing_and_says_so_to_every_owner() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await process.load()
        await managed.append(drafts("a", "b"))
        assert await managed.seal(controller_epoch=3) == Position(1, 1)
        assert await managed.seal(controller_epoch=3) == Position(1, 1)
        with pytest.raises(Sealed, match="sealed at 1:1"):
            managed.submit(drafts("c"))
        with pytest.raises(Stale, match="order of controller epoch 2, already at 3"):
            await managed.seal(controller_epoch=2)
        with pytest.raises(Stale):
            await managed.accept_controller(2)
        assert await managed.seal() == Position(1, 1), "an operator needs no epoch"
        process.crash()
        again = await world.process().load()
        assert again.record.controller_epoch == 3
        with pytest.raises(Sealed):
            await again.append(drafts("c"))
        assert await again.seal(controller_epoch=4) == Position(1, 1)
        assert await read_all(again) == ["a", "b"]

    run(scenario())


def test_what_was_submitted_before_a_seal_is_in_it() -> None:
    async def scenario() -> None:
        managed = await ManagedWorld().process().load()
        await managed.append(drafts("a"))
        pending = [managed.submit(drafts("b")), managed.submit(drafts("c"))]
        sealing = asyncio.create_task(managed.seal())
        await asyncio.sleep(0)
        late = managed.submit(drafts("late"))
        assert await sealing == Position(1, 2)
        assert await asyncio.gather(*pending) == [Position(1, 1), Position(1, 2)]
        with pytest.raises(Sealed):
            await late
        assert await read_all(managed) == ["a", "b", "c"]

    run(scenario())


def test_an_empty_ledger_can_be_sealed() -> None:
    async def scenario() -> None:
        managed = await ManagedWorld().process().load()
        cursor = await managed.open_cursor("sub", EARLIEST)
        assert await managed.seal() == EARLIEST
        assert managed.is_drained("sub")
        assert cursor.backlog == 0

    run(scenario())


def test_drained_means_sealed_and_all_acknowledged() -> None:
    async def scenario() -> None:
        managed = await ManagedWorld().process().load()
        cursor = await managed.open_cursor("sub", EARLIEST)
        position = await managed.append(drafts("a"))
        with pytest.raises(NotFound, match="no cursor other"):
            managed.is_drained("other")
        cursor.acknowledge([position])
        assert not managed.is_drained("sub"), "more may come"
        await managed.seal()
        assert managed.is_drained("sub")
        await cursor.seek(EARLIEST)
        assert not managed.is_drained("sub")

    run(scenario())


def test_after_an_unload_the_next_owner_recovers_nothing() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await world.process().load()
        await managed.append(drafts("a"))
        cursor = await managed.open_cursor("sub", EARLIEST)
        cursor.acknowledge([Position(1, 0)])
        pending = managed.submit(drafts("b"))
        await managed.unload()
        assert await pending == Position(1, 1)
        with pytest.raises(Closed, match="unloaded"):
            managed.submit(drafts("c"))
        with pytest.raises(Closed, match="unloaded"):
            cursor.acknowledge([Position(1, 1)])
        stored = await world.records.load(NAME)
        assert stored is not None
        assert stored[0].unclosed == []
        assert stored[0].owner == ""
        next_process = world.process()
        world.disk.recoveries.clear()
        again = await next_process.load()
        assert world.disk.recoveries == []
        assert await read_all(again) == ["a", "b"]
        assert [c.backlog for c in again.cursors.all()] == [1]

    run(scenario())


def test_nothing_is_taken_while_an_unload_is_under_way() -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await process.load()
        await managed.append(drafts("a"))
        process.store.pause()
        pending = managed.submit(drafts("b"))
        unloading = asyncio.create_task(managed.unload())
        await turns()
        with pytest.raises(Closed, match="unloaded"):
            managed.submit(drafts("late"))
        process.store.resume()
        await unloading
        assert await pending == Position(1, 1)

    run(scenario())


def test_submissions_queued_for_a_new_ledger_survive_an_unload() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await world.process().load(small(max_entries=1))
        futures = [managed.submit(drafts(f"m{n}")) for n in range(4)]
        await managed.unload()
        assert len(await asyncio.gather(*futures)) == 4
        assert await read_all(await world.process().load()) == ["m0", "m1", "m2", "m3"]

    run(scenario())


def test_deletion_leaves_nothing() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await world.process().load(small(max_entries=2))
        for number in range(5):
            await managed.append(drafts(f"m{number}"))
        await managed.open_cursor("sub", EARLIEST)
        await managed.delete()
        assert world.disk.ledgers == {}
        assert await world.records.load(NAME) is None
        assert await world.records.cursor_names(NAME) == []
        with pytest.raises(Closed, match="deleted"):
            await managed.append(drafts("x"))

    run(scenario())


def test_giving_up_ownership_fails_what_waits() -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await process.load()
        await managed.append(drafts("a"))
        process.store.pause()
        pending = managed.submit(drafts("b"))
        waiting = asyncio.create_task(managed.wait_for_entries(LATEST))
        await asyncio.sleep(0)
        managed.abandon("store session lost")
        with pytest.raises(Fenced, match="store session lost"):
            await pending
        with pytest.raises(Fenced):
            await waiting
        assert "store session lost" in repr(managed)

    run(scenario())


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_save_of_unknown_outcome_is_settled_by_reading(is_applied: bool) -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await world.process().load()
        await managed.append(drafts("a"))
        world.records.fail_next_save(is_applied=is_applied)
        with pytest.raises(Unavailable):
            await managed.seal()
        if is_applied:
            with pytest.raises(Sealed):
                await managed.append(drafts("b"))
        else:
            await managed.append(drafts("b"))
        last = await managed.seal()
        assert await read_all(managed) == (["a"] if is_applied else ["a", "b"])
        assert managed.last_confirmed == last

    run(scenario())
