"""One hold on a record, and how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from anabranch.errors import AnabranchError, Fenced, Unavailable
from anabranch.storage.managed_record import ManagedRecord
from anabranch.storage.memory_records import MemoryRecords
from anabranch.storage.record_keeper import RecordKeeper, Tenure
from tests.managed_world import run


async def keeper(records: MemoryRecords) -> tuple[RecordKeeper, Tenure]:
    record = ManagedRecord(epoch=1)
    version = await records.save("x", record, -1)
    tenure = Tenure()
    return RecordKeeper("x", records, record, version, tenure), tenure


def owned_by(owner: str, record: ManagedRecord) -> ManagedRecord:
    return replace(record, owner=owner)


def test_a_tenure_ends_once_and_tells_everybody() -> None:
    tenure = Tenure()
    told: list[AnabranchError] = []
    tenure.on_end(told.append)
    tenure.check()
    tenure.end(Fenced("first"))
    tenure.end(Fenced("second"))
    assert [str(error) for error in told] == ["first"]
    with pytest.raises(Fenced, match="first"):
        tenure.check()


def test_a_lost_compare_and_set_ends_the_tenure() -> None:
    async def scenario() -> None:
        records = MemoryRecords()
        mine, tenure = await keeper(records)
        found = await records.load("x")
        assert found is not None
        await records.save("x", replace(found[0], epoch=2), found[1])
        with pytest.raises(Fenced, match="x has another owner"):
            await mine.update(lambda record: owned_by("me", record))
        with pytest.raises(Fenced):
            await mine.refresh()
        assert isinstance(tenure.error, Fenced)

    run(scenario())


@pytest.mark.parametrize("is_applied", [True, False])
def test_after_an_unknown_outcome_the_next_change_builds_on_what_is_stored(
    is_applied: bool,
) -> None:
    async def scenario() -> None:
        records = MemoryRecords()
        mine, tenure = await keeper(records)
        records.fail_next_save(is_applied=is_applied)
        with pytest.raises(Unavailable):
            await mine.update(lambda record: owned_by("me", record))
        assert tenure.error is None
        seen: list[str] = []

        def change(record: ManagedRecord) -> ManagedRecord:
            seen.append(record.owner)
            return replace(record, controller_epoch=5)

        await mine.update(change)
        assert seen == ["me" if is_applied else ""]
        assert mine.record.controller_epoch == 5

    run(scenario())


def test_an_unknown_outcome_followed_by_a_takeover_is_the_end() -> None:
    async def scenario() -> None:
        records = MemoryRecords()
        mine, _ = await keeper(records)
        records.fail_next_save(is_applied=True)
        with pytest.raises(Unavailable):
            await mine.update(lambda record: owned_by("me", record))
        found = await records.load("x")
        assert found is not None
        await records.save("x", replace(found[0], epoch=2), found[1])
        with pytest.raises(Fenced, match="at epoch 2, ours was 1"):
            await mine.refresh()

    run(scenario())


def test_a_change_that_changes_nothing_is_not_written() -> None:
    async def scenario() -> None:
        records = MemoryRecords()
        mine, _ = await keeper(records)
        before = await records.load("x")
        await mine.update(lambda record: record)
        assert await records.load("x") == before

    run(scenario())


class SlowRecords(MemoryRecords):
    """Says when a save is applied, and answers only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.applied = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def save(self, name: str, record: ManagedRecord, expected: int) -> int:
        version = await super().save(name, record, expected)
        self.applied.set()
        await self.may_answer.wait()
        return version


def test_a_caller_that_goes_away_in_the_middle_of_a_change_does_not_end_the_tenure() -> None:
    async def scenario() -> None:
        records = SlowRecords()
        mine, tenure = await keeper(records)
        records.applied.clear()
        records.may_answer.clear()
        change = asyncio.create_task(mine.update(lambda record: owned_by("me", record)))
        await records.applied.wait()
        change.cancel()
        with pytest.raises(asyncio.CancelledError):
            await change
        records.may_answer.set()
        changed = await mine.update(lambda record: replace(record, properties={"a": "b"}))
        assert (changed.owner, changed.properties) == ("me", {"a": "b"})
        assert tenure.error is None

    run(scenario())
