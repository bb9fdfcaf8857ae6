"""Expiry, quota and trimming carried out, and that disk is freed."""

from __future__ import annotations

from pathlib import Path

from anabranch.storage.maintenance import expire, hold_to_quota, maintain
from anabranch.storage.managed_ledger import ManagedLedger
from anabranch.storage.memory_records import MemoryRecords
from anabranch.storage.trimming import BacklogAction, LedgerPolicy
from anabranch.topics.positions import EARLIEST
from tests.ledger_engines import FileEngine
from tests.managed_world import (
    ManagedWorld,
    ManualClock,
    draft,
    load,
    read_all,
    run,
    small,
)

SECOND = 1000


async def filled(world: ManagedWorld, entries: int = 10) -> ManagedLedger:
    """One entry a second, three to a ledger, the last one now."""
    managed = await world.process().load(small(max_entries=3))
    for number in range(entries):
        await managed.append([draft(f"m{number}" + "." * 98, world.clock.now_ms)])
        world.clock.now_ms += SECOND
    return managed


def test_what_outlived_its_time_is_acknowledged_for_everybody() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world)
        spans = managed.spans()
        behind = await managed.open_cursor("behind", EARLIEST)
        ahead = await managed.open_cursor("ahead", spans.at(8))
        await managed.set_policy(LedgerPolicy(ttl_seconds=5))
        assert await expire(managed, world.clock.now_ms) == ["behind"]
        assert behind.next_unacked(EARLIEST) == spans.at(5)
        assert ahead.next_unacked(EARLIEST) == spans.at(8)
        assert await expire(managed, world.clock.now_ms) == []
        world.clock.now_ms += 60 * SECOND
        assert await expire(managed, world.clock.now_ms) == ["behind", "ahead"]
        assert behind.backlog == ahead.backlog == 0

    run(scenario())


def test_nothing_expires_without_a_limit() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world)
        cursor = await managed.open_cursor("sub", EARLIEST)
        assert await expire(managed, 2**50) == []
        assert cursor.backlog == 10

    run(scenario())


def test_a_backlog_over_its_quota_is_reported_and_evicted_only_if_asked() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world)
        cursor = await managed.open_cursor("sub", EARLIEST)
        await managed.set_policy(LedgerPolicy(max_backlog_bytes=500))
        found = await hold_to_quota(managed, world.clock.now_ms)
        assert found["sub"].action is BacklogAction.HOLD_PRODUCERS
        assert found["sub"].reason == "backlog of 1000 bytes is over the limit of 500"
        assert cursor.backlog == 10
        evict = LedgerPolicy(max_backlog_bytes=500, backlog_action=BacklogAction.EVICT)
        await managed.set_policy(evict)
        assert list(await hold_to_quota(managed, world.clock.now_ms)) == ["sub"]
        assert 0 < cursor.backlog <= 4
        assert await hold_to_quota(managed, world.clock.now_ms) == {}

    run(scenario())


def test_a_backlog_may_be_too_old() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world)
        spans = managed.spans()
        cursor = await managed.open_cursor("sub", EARLIEST)
        action = BacklogAction.EVICT
        await managed.set_policy(LedgerPolicy(max_backlog_seconds=4, backlog_action=action))
        found = await hold_to_quota(managed, world.clock.now_ms)
        assert "older than the limit of 4 s" in found["sub"].reason
        assert cursor.next_unacked(EARLIEST) == spans.at(6)
        assert await hold_to_quota(managed, world.clock.now_ms) == {}

    run(scenario())


def test_upkeep_trims_what_it_has_just_expired() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world)
        await managed.open_cursor("sub", EARLIEST)
        await managed.set_policy(LedgerPolicy(ttl_seconds=5))
        before = len(world.disk.ledgers)
        upkeep = await maintain(managed, world.clock.now_ms)
        assert upkeep.expired == ("sub",)
        assert len(upkeep.trimmed) == 1
        assert len(world.disk.ledgers) == before - 1
        assert (await read_all(managed))[0].startswith("m3")

    run(scenario())


def test_retention_keeps_what_is_acknowledged_for_a_while() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world)
        await managed.set_policy(LedgerPolicy(retention_minutes=1, retention_bytes=-1))
        assert await managed.trim() == []
        world.clock.now_ms += 54 * SECOND
        assert len(await managed.trim()) == 1
        world.clock.now_ms += 60 * SECOND
        assert len(await managed.trim()) == 2

    run(scenario())


def test_everything_may_go_and_positions_still_only_rise() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await process.load(small(max_entries=3))
        cursor = await managed.open_cursor("sub", EARLIEST)
        last = await managed.append([draft("a"), draft("b")])
        cursor.acknowledge_cumulative(last.next())
        await managed.unload()
        managed = await world.process().load()
        assert await managed.trim() == [last.ledger]
        assert managed.first_position is None
        assert managed.last_confirmed == last.next()
        assert managed.cursors.all()[0].backlog == 0
        late = await managed.open_cursor("late", EARLIEST)
        assert await managed.append([draft("c")]) > last.next()
        assert late.backlog == 1
        assert managed.cursors.all()[0].backlog == 1

    run(scenario())


def test_trimming_frees_disk(tmp_path: Path) -> None:
    def used() -> int:
        return sum(path.stat().st_size for path in tmp_path.rglob("ledgers/*"))

    async def scenario() -> None:
        engine = FileEngine(tmp_path)
        store, records, clock = await engine.start(), MemoryRecords(), ManualClock()
        managed = await load(store, records, clock, "owner", small(max_entries=10))
        cursor = await managed.open_cursor("sub", EARLIEST)
        for number in range(40):
            await managed.append([draft(f"{number}" * 1000)])
        cursor.acknowledge_cumulative(managed.last_confirmed)
        await cursor.persist()
        await managed.unload()
        store = await engine.stop_and_restart()  # a checkpoint brings all to the ledgers' files
        managed = await load(store, records, clock, "owner")
        before = used()
        assert len(await managed.trim()) == 4
        assert used() < before / 10
        managed.abandon("the test is over")
        await engine.shut_down()

    run(scenario())
