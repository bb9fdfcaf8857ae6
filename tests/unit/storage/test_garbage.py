"""What crashes strand, and what must not be mistaken for it."""

from __future__ import annotations

import pytest

from anabranch.errors import Unavailable
from anabranch.storage.garbage import MIN_AGE_MS, find_garbage, referenced_ledgers
from anabranch.topics.positions import EARLIEST
from tests.managed_world import ManagedWorld, drafts, run, small


def test_a_ledger_stranded_by_a_crash_is_found_after_an_hour() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await process.load(small(max_entries=1))
        await managed.open_cursor("sub", EARLIEST)
        # The ledger is made, the record does not name it, and the process dies.
        world.records.fail_next_save(is_applied=False)
        with pytest.raises(Unavailable):
            await managed.append(drafts("a"))
        process.crash()
        again = await world.process().load()
        referenced = referenced_ledgers(again.record)
        stranded = set(world.disk.ledgers) - referenced
        assert len(stranded) == 1
        store, now = world.process().store, world.clock.now_ms
        assert await find_garbage(store, referenced, now + MIN_AGE_MS - 1) == []
        assert await find_garbage(store, referenced, now + MIN_AGE_MS) == sorted(stranded)

    run(scenario())


def test_ledgers_that_are_not_ours_are_left_alone() -> None:
    async def scenario() -> None:
        store = ManagedWorld().process().store
        await store.create({})
        await store.create({"created-ms": "yesterday"})
        assert await find_garbage(store, set(), 2**60) == []

    run(scenario())


def test_everything_a_managed_ledger_uses_is_referenced() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await world.process().load(small(max_entries=2))
        for number in range(5):
            await managed.append(drafts(f"m{number}"))
        await managed.open_cursor("sub", EARLIEST)
        assert referenced_ledgers(managed.record) == set(world.disk.ledgers)

    run(scenario())
