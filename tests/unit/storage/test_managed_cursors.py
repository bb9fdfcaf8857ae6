"""Making, opening, seeking and deleting cursors."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.errors import Fenced, InvalidInput, NotFound, Unavailable
from anabranch.storage.managed_ledger import ManagedLedger
from anabranch.storage.spans import LATEST
from anabranch.topics.positions import EARLIEST, Position
from tests.managed_world import NAME, ManagedWorld, Process, drafts, run, small, turns


async def filled(process: Process, entries: int = 10, max_entries: int = 4) -> ManagedLedger:
    managed = await process.load(small(max_entries=max_entries))
    for number in range(entries):
        await managed.append(drafts(f"m{number}"))
    return managed


def test_a_cursor_begins_where_it_is_told() -> None:
    async def scenario() -> None:
        managed = await filled(ManagedWorld().process())
        spans = managed.spans()
        assert (await managed.open_cursor("earliest", EARLIEST)).backlog == 10
        assert (await managed.open_cursor("latest", LATEST)).backlog == 0
        middle = await managed.open_cursor("middle", spans.at(4))
        assert middle.backlog == 6
        assert middle.next_unacked(EARLIEST) == spans.at(4)
        assert (await managed.open_cursor("by default")).backlog == 0

    run(scenario())


def test_a_cursor_that_exists_keeps_its_place() -> None:
    async def scenario() -> None:
        managed = await filled(ManagedWorld().process())
        cursor = await managed.open_cursor("sub", EARLIEST, properties={"a": "1"})
        again = await managed.open_cursor("sub", LATEST, properties={"b": "2"})
        assert again is cursor
        assert again.backlog == 10
        assert again.properties == {"a": "1"}

    run(scenario())


def test_two_that_create_the_same_cursor_get_the_same_one() -> None:
    async def scenario() -> None:
        managed = await filled(ManagedWorld().process())
        both = await asyncio.gather(
            managed.open_cursor("sub", EARLIEST), managed.open_cursor("sub", LATEST)
        )
        assert both[0] is both[1]

    run(scenario())


def test_creation_and_deletion_are_durable_when_they_return() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process)
        await managed.open_cursor("gone", EARLIEST)
        await managed.open_cursor("kept", EARLIEST, properties={"k": "v"})
        await managed.delete_cursor("gone")
        await managed.delete_cursor("gone")
        process.crash()
        assert await world.records.cursor_names(NAME) == ["kept"]
        again = await world.process().load()
        assert again.cursors.names == ["kept"]
        kept = again.cursors.get("kept")
        assert kept is not None
        assert kept.properties == {"k": "v"}
        assert kept.backlog == 10

    run(scenario())


def test_a_deleted_cursor_made_anew_begins_anew() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process)
        old = await managed.open_cursor("sub", LATEST)
        await managed.delete_cursor("sub")
        with pytest.raises(NotFound, match="sub was deleted"):
            old.acknowledge([Position(1, 0)])
        new = await managed.open_cursor("sub", EARLIEST)
        assert new.backlog == 10
        process.crash()
        again = (await world.process().load()).cursors.get("sub")
        assert again is not None
        assert again.backlog == 10

    run(scenario())


def test_a_creation_that_failed_left_no_cursor() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process)
        await managed.open_cursor("other", EARLIEST)
        process.store.fail_next_commit(kept_entries=1)
        with pytest.raises(Unavailable):
            await managed.open_cursor("sub", EARLIEST)
        assert managed.cursors.names == ["other"]
        await managed.cursors.persist()
        process.crash()
        process = world.process()
        managed = await process.load()
        assert managed.cursors.names == ["other"], "nor did the next owner find one"
        assert (await managed.open_cursor("sub", LATEST)).backlog == 0
        process.crash()
        again = await world.process().load()
        assert [cursor.backlog for cursor in again.cursors.all()] == [10, 0]

    run(scenario())


def test_a_seek_is_durable_when_it_returns_and_forgets_all_holes() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process)
        spans = managed.spans()
        cursor = await managed.open_cursor("sub", EARLIEST)
        cursor.acknowledge([spans.at(0), spans.at(5), spans.at(8)])
        cursor.acknowledge_batch(spans.at(6), [1])
        await cursor.seek(spans.at(3))
        process.crash()
        again = (await world.process().load()).cursors.get("sub")
        assert again is not None
        assert again.next_unacked(EARLIEST) == spans.at(3)
        assert again.backlog == 7
        assert again.unacked_bits(spans.at(6)) is None

    run(scenario())


def test_a_seek_back_stops_trimming_before_it_is_durable() -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await filled(process)
        cursor = await managed.open_cursor("sub", EARLIEST)
        cursor.acknowledge_cumulative(managed.last_confirmed)
        await cursor.persist()
        process.store.pause()
        seeking = asyncio.create_task(cursor.seek(EARLIEST))
        await asyncio.sleep(0)
        assert await managed.trim() == []
        process.store.resume()
        await seeking
        assert await managed.trim() == []
        assert cursor.backlog == 10

    run(scenario())


def test_a_seek_back_is_not_forgotten_by_an_older_write_that_comes_through() -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await filled(process)
        cursor = await managed.open_cursor("sub", EARLIEST)
        process.store.pause()
        cursor.acknowledge_cumulative(managed.last_confirmed)
        older = asyncio.create_task(cursor.persist())
        await turns()
        seeking = asyncio.create_task(cursor.seek(EARLIEST))
        await turns()
        older.add_done_callback(lambda _: process.store.pause())
        process.store.resume()
        await older
        assert await managed.trim() == []
        process.store.resume()
        await seeking

    run(scenario())


def test_a_cursor_being_deleted_holds_its_entries_until_that_is_durable() -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await filled(process)
        await managed.open_cursor("sub", EARLIEST)
        process.store.pause()
        deleting = asyncio.create_task(managed.delete_cursor("sub"))
        await asyncio.sleep(0)
        assert managed.cursors.names == []
        assert await managed.trim() == []
        process.store.resume()
        await deleting
        assert await managed.trim() == [1, 2]

    run(scenario())


def test_a_cursor_that_is_not_durable_is_written_nowhere_and_holds_nothing() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world.process())
        reader = await managed.open_cursor("reader", EARLIEST, is_durable=False)
        assert reader.backlog == 10
        assert not reader.is_durable
        reader.acknowledge([Position(1, 0), Position(1, 2)])
        await reader.persist()
        assert reader.persisted_mark_delete == Position(1, 0)
        assert managed.record.cursor_ledger is None
        assert managed.cursors.names == []
        assert await managed.trim() == [1, 2]
        # What it had before it is gone; it goes on with what there is.
        assert reader.backlog == 2
        assert reader.next_unacked(EARLIEST) == managed.first_position
        await reader.seek(EARLIEST)
        assert reader.backlog == 2

    run(scenario())


def test_a_reader_may_not_take_the_name_of_a_durable_cursor() -> None:
    async def scenario() -> None:
        managed = await filled(ManagedWorld().process())
        await managed.open_cursor("sub", EARLIEST)
        with pytest.raises(InvalidInput, match="sub is a durable cursor"):
            await managed.open_cursor("sub", EARLIEST, is_durable=False)

    run(scenario())


def test_properties_of_a_cursor_are_kept() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process)
        cursor = await managed.open_cursor("sub", EARLIEST)
        cursor.acknowledge([Position(1, 1)])
        await cursor.set_properties({"owner": "me"})
        process.crash()
        again = (await world.process().load()).cursors.get("sub")
        assert again is not None
        assert again.properties == {"owner": "me"}
        assert again.is_acked(Position(1, 1)), "written with everything else that was owed"

    run(scenario())


def test_a_handle_says_what_it_is() -> None:
    async def scenario() -> None:
        managed = await filled(ManagedWorld().process())
        cursor = await managed.open_cursor("sub", EARLIEST, is_durable=False)
        cursor.acknowledge([Position(1, 0), Position(1, 2)])
        cursor.acknowledge_batch(Position(1, 3), [1])
        expected = "Cursor(through 1:0, 1 runs, 1 partial batches)"
        assert repr(cursor) == f"ManagedCursor('sub', {expected}, not durable)"

    run(scenario())


def test_a_cursor_made_on_a_zombie_never_reaches_the_list_of_names() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        old = await filled(world.process())
        await world.process().load()
        with pytest.raises(Fenced):
            await old.open_cursor("sub", EARLIEST)
        assert await world.records.cursor_names(NAME) == []

    run(scenario())


def test_an_owner_that_was_overtaken_does_not_unlist_what_its_successor_made() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        former = await world.process().load()
        newer = await world.process().load()
        await newer.open_cursor("sub", EARLIEST)
        # The former one had read its log before `sub` was made, and mends only now.
        await former.cursors.mend_names()
        assert await world.records.cursor_names(NAME) == ["sub"]
        await newer.delete_cursor("sub")
        assert await world.records.cursor_names(NAME) == []

    run(scenario())
