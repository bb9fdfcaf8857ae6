"""When an acknowledgement is durable, and what a crash may take."""

from __future__ import annotations

import asyncio

import pytest
from crc32c import crc32c

from anabranch.errors import Corrupt, Fenced, Unavailable
from anabranch.storage.cursor_format import CursorRecord, encode_record, parse_record
from anabranch.storage.ledger import Draft
from anabranch.storage.managed_ledger import ManagedLedger
from anabranch.topics.positions import EARLIEST, Position
from tests.managed_world import NAME, ManagedWorld, Process, drafts, run, small, turns, until


async def filled(process: Process, entries: int = 9, **config: float) -> ManagedLedger:
    managed = await process.load(small(**config))  # type: ignore[arg-type]
    await managed.append(drafts(*(f"m{number}" for number in range(entries))))
    return managed


def cursor_records(world: ManagedWorld, managed: ManagedLedger) -> list[CursorRecord]:
    info = managed.record.cursor_ledger
    assert info is not None
    return [parse_record(bytes(draft.body)) for draft in world.disk.get(info.ledger).drafts]


def test_an_acknowledgement_with_a_receipt_survives_a_crash() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process)
        cursor = await managed.open_cursor("sub", EARLIEST)
        cursor.acknowledge([Position(1, 0), Position(1, 3)])
        cursor.acknowledge_batch(Position(1, 2), [0b101])
        await cursor.persist()
        cursor.acknowledge([Position(1, 5)])  # nobody waited for this one
        process.crash()
        again = (await world.process().load()).cursors.get("sub")
        assert again is not None
        assert [again.is_acked(Position(1, n)) for n in range(6)] == [
            True, False, False, True, False, False,
        ]  # fmt: skip
        assert again.unacked_bits(Position(1, 2)) == 0b101
        assert again.mark_delete == Position(1, 0)

    run(scenario())


def test_acknowledgements_without_a_receipt_are_written_after_a_while() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process, flush_seconds=0.0)
        cursor = await managed.open_cursor("sub", EARLIEST)
        cursor.acknowledge_cumulative(Position(1, 4))
        await until(lambda: cursor.persisted_mark_delete == Position(1, 4))
        process.crash()
        again = (await world.process().load()).cursors.get("sub")
        assert again is not None
        assert again.mark_delete == Position(1, 4)

    run(scenario())


def test_a_receipt_for_one_does_not_hurry_the_others() -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await filled(process)
        cursor = await managed.open_cursor("sub", EARLIEST)
        process.store.pause()
        cursor.acknowledge([Position(1, 0)])
        receipt = asyncio.create_task(cursor.persist())
        await turns()
        cursor.acknowledge([Position(1, 1)])  # while that write is under way
        process.store.resume()
        await receipt
        await turns()
        assert cursor.mark_delete == Position(1, 1)
        assert cursor.persisted_mark_delete == Position(1, 0), "it has an hour, in this test"

    run(scenario())


def test_receipts_asked_for_together_share_one_entry() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world.process())
        cursor = await managed.open_cursor("sub", EARLIEST)
        before = len(cursor_records(world, managed))

        async def acknowledge(entry: int) -> None:
            cursor.acknowledge([Position(1, entry)])
            await cursor.persist()

        await asyncio.gather(*(acknowledge(entry) for entry in range(1, 9)))
        assert len(cursor_records(world, managed)) <= before + 2

    run(scenario())


def test_only_changed_cursors_are_written_and_only_what_changed() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world.process())
        cursors = [await managed.open_cursor(f"sub-{n}", EARLIEST) for n in range(5)]
        cursors[1].acknowledge([Position(1, 7)])
        await cursors[1].persist()
        cursors[1].acknowledge([Position(1, 5)])
        await cursors[1].persist()
        cursors[2].acknowledge([Position(1, 7), Position(9, 9)])
        cursors[2].acknowledge([Position(1, 7)])
        await cursors[0].persist()  # everything owed is written, whoever asks
        records = cursor_records(world, managed)
        assert [sorted(record.changes) for record in records[-3:]] == [
            ["sub-1"], ["sub-1"], ["sub-2"],
        ]  # fmt: skip
        assert records[-2].changes["sub-1"].runs == {1: ((5, 5),)}
        count = len(records)
        cursors[1].acknowledge([Position(1, 5)])  # known already
        await cursors[1].persist()
        assert len(cursor_records(world, managed)) == count

    run(scenario())


def test_a_receipt_waits_for_the_disk() -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await filled(process)
        cursor = await managed.open_cursor("sub", EARLIEST)
        process.store.pause()
        cursor.acknowledge([Position(1, 0)])
        receipt = asyncio.create_task(cursor.persist())
        await turns()
        # Acknowledged again while the first is on its way: this receipt must wait as well.
        cursor.acknowledge([Position(1, 0)])
        second = asyncio.create_task(cursor.persist())
        await turns()
        assert not receipt.done()
        assert not second.done()
        assert cursor.persisted_mark_delete < Position(1, 0)
        process.store.resume()
        await asyncio.gather(receipt, second)
        assert cursor.persisted_mark_delete == Position(1, 0)

    run(scenario())


def test_the_record_names_a_new_cursor_ledger_only_when_its_snapshot_is_durable() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process)
        cursor = await managed.open_cursor("sub", EARLIEST)
        cursor.acknowledge([Position(1, 1)])
        await managed.unload()
        process = world.process()
        managed = await process.load()
        old = managed.record.cursor_ledger
        again = managed.cursors.get("sub")
        assert again is not None
        process.store.pause()
        again.acknowledge([Position(1, 2)])
        receipt = asyncio.create_task(again.persist())
        await turns()
        assert managed.record.cursor_ledger == old
        process.crash()
        with pytest.raises(Fenced):
            await receipt
        last = (await world.process().load()).cursors.get("sub")
        assert last is not None
        assert last.is_acked(Position(1, 1))

    run(scenario())


def test_a_large_log_starts_over_with_a_snapshot_and_drops_the_old_one() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process, entries=400, cursor_bytes=300, max_entries=1000)
        cursors = [await managed.open_cursor(f"sub-{n}", EARLIEST) for n in range(20)]
        seen = set()
        for entry in range(1, 400, 2):
            cursors[entry % 20].acknowledge([Position(1, entry)])
            await cursors[0].persist()
            info = managed.record.cursor_ledger
            assert info is not None
            seen.add(info.ledger)
        assert len(seen) > 2
        assert len(world.disk.ledgers) == 2, "one of entries, one of cursors"
        records = cursor_records(world, managed)
        assert records[0].is_snapshot
        assert len(records[0].changes) == 16, "a snapshot takes as many entries as it needs"
        assert records[1].is_snapshot
        process.crash()
        again = await world.process().load()
        states = {c.name: [c.is_acked(Position(1, n)) for n in range(400)] for c in cursors}
        assert states == {
            c.name: [c.is_acked(Position(1, n)) for n in range(400)] for c in again.cursors.all()
        }

    run(scenario())


def test_a_failed_write_fails_its_receipts_and_is_made_good_by_a_snapshot() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process)
        cursor = await managed.open_cursor("sub", EARLIEST)
        before = managed.record.cursor_ledger
        process.store.fail_next_commit()
        cursor.acknowledge([Position(1, 3)])
        with pytest.raises(Unavailable):
            await cursor.persist()
        assert cursor.persisted_mark_delete < Position(1, 0)
        # The client asks again. In memory it is acknowledged already, but on disk it is not.
        cursor.acknowledge([Position(1, 3)])
        await cursor.persist()
        assert managed.record.cursor_ledger != before
        process.crash()
        again = (await world.process().load()).cursors.get("sub")
        assert again is not None
        assert again.is_acked(Position(1, 3))

    run(scenario())


def test_a_failed_write_is_tried_again_without_being_asked() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        process = world.process()
        managed = await filled(process, flush_seconds=0.0)
        cursor = await managed.open_cursor("sub", EARLIEST)
        process.store.fail_next_commit()
        cursor.acknowledge_cumulative(Position(1, 3))
        await until(lambda: cursor.persisted_mark_delete == Position(1, 3))
        process.crash()
        again = (await world.process().load()).cursors.get("sub")
        assert again is not None
        assert again.mark_delete == Position(1, 3)

    run(scenario())


def test_a_receipt_that_nobody_waits_for_any_more_does_no_harm() -> None:
    async def scenario() -> None:
        process = ManagedWorld().process()
        managed = await filled(process)
        cursor = await managed.open_cursor("sub", EARLIEST)
        process.store.pause()
        cursor.acknowledge([Position(1, 0)])
        tasks = [asyncio.create_task(cursor.persist()) for _ in range(2)]
        await turns()
        tasks[0].cancel()
        process.store.resume()
        await tasks[1]
        assert cursor.persisted_mark_delete == Position(1, 0)

    run(scenario())


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"\xff\xff", "not a cursor record"), (encode_record(CursorRecord()), "no snapshot")],
)
def test_a_damaged_cursor_ledger_is_not_served(body: bytes, reason: str) -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world.process())
        await managed.open_cursor("sub", EARLIEST)
        await managed.unload()
        info = managed.record.cursor_ledger
        assert info is not None
        world.disk.get(info.ledger).drafts[0] = Draft(body, crc32c(body))
        with pytest.raises(Corrupt, match=reason) as caught:
            await world.process().load()
        assert (caught.value.ledger, caught.value.entry) == (info.ledger, 0)

    run(scenario())


def test_names_in_the_store_follow_the_log_after_a_crash_between_the_two() -> None:
    async def scenario() -> None:
        world = ManagedWorld()
        managed = await filled(world.process())
        await managed.open_cursor("kept", EARLIEST)
        await managed.unload()
        await world.records.remove_cursor_name(NAME, "kept", 1)
        await world.records.add_cursor_name(NAME, "never created", 1)
        await world.process().load()
        assert await world.records.cursor_names(NAME) == ["kept"]

    run(scenario())
