"""What a start finds after crashes and damage: every kind of file flipped, cut, lost, left over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from anabranch.errors import Corrupt
from anabranch.runtime.system import system_world
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.manifest import load_manifest
from anabranch.storage.recovery import recover_storage
from tests.faulty_disk import faulty
from tests.ledger_contract import check_holds, numbered, read_all
from tests.ledger_engines import TINY, abandon

ROOMY = EngineConfig(journal_file_bytes=1024 * 1024, reserve_bytes=0, cache_bytes=0)


async def crashed_after(directory: Path, batches: int, *, config: EngineConfig = ROOMY) -> int:
    """A process writes so many groups of 10 entries to one ledger, and is gone."""
    store = await FileLedgerStore.start(system_world(directory), config)
    writer = await store.create({"kept": "yes"})
    for number in range(0, 10 * batches, 10):
        await writer.append(numbered(number, 10))
    await abandon(store)
    return writer.ledger


async def stopped_after(directory: Path, batches: int, *, close_ledger: bool = True) -> int:
    store = await FileLedgerStore.start(system_world(directory), ROOMY)
    writer = await store.create({})
    for number in range(0, 10 * batches, 10):
        await writer.append(numbered(number, 10))
    if close_ledger:
        await writer.close()
    await store.close()
    return writer.ledger


async def found(directory: Path, ledger: int, *, config: EngineConfig = ROOMY) -> int:
    store = await FileLedgerStore.start(system_world(directory), config)
    try:
        reader = await store.open(ledger)
        entries = await read_all(reader)
        check_holds(entries, ledger, numbered(0, len(entries)))
        assert reader.last_confirmed == len(entries) - 1
        return len(entries)
    finally:
        await store.close()


def only(directory: Path, pattern: str) -> Path:
    (path,) = directory.glob(f"storage/{pattern}")
    return path


def journal_in_use(directory: Path) -> Path:
    """The one that has been written to: the others are still full of zeros."""
    written = [path for path in directory.glob("storage/journal/*") if any(path.read_bytes())]
    (path,) = written
    return path


def flip(path: Path, offset: int, mask: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


def test_a_clean_stop_leaves_nothing_to_replay(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await stopped_after(tmp_path, 5)
        for path in tmp_path.glob("storage/journal/*"):
            path.write_bytes(bytes(path.stat().st_size))  # so it can come from nowhere else
        assert await found(tmp_path, ledger) == 50

    run(scenario)


def test_a_journal_that_was_never_written_back_is_replayed(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await crashed_after(tmp_path, 5)
        assert not list(tmp_path.glob("storage/ledgers/*"))
        assert await found(tmp_path, ledger) == 50

    run(scenario)


def test_a_torn_last_group_is_kept_up_to_the_damage(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await crashed_after(tmp_path, 5)
        journal = journal_in_use(tmp_path)
        end = len(journal.read_bytes().rstrip(b"\0"))
        flip(journal, end - 1)  # in the body of the very last entry
        assert await found(tmp_path, ledger) == 49
        assert await found(tmp_path, ledger) == 49

    run(scenario)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_any_part_of_the_last_group_may_be_missing(tmp_path: Path, kept: float) -> None:
    async def scenario() -> None:
        ledger = await crashed_after(tmp_path, 5)
        journal = journal_in_use(tmp_path)
        data = journal.read_bytes()
        end = len(data.rstrip(b"\0"))
        start = end - (10 * 148 + 48)
        cut = start + int(kept * (end - start))
        journal.write_bytes(data[:cut] + bytes(len(data) - cut))
        assert 40 <= await found(tmp_path, ledger) < 50

    run(scenario)


def test_damage_before_the_last_group_stops_the_start_and_names_the_entry(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await crashed_after(tmp_path, 5)
        journal = journal_in_use(tmp_path)
        body = journal.read_bytes().index(b"00000013.")
        flip(journal, body)
        for _ in range(2):
            with pytest.raises(Corrupt, match="acknowledged") as caught:
                await found(tmp_path, ledger)
            assert (caught.value.ledger, caught.value.entry) == (ledger, 13)
        flip(journal, body)  # the evidence was not touched
        assert await found(tmp_path, ledger) == 50

    run(scenario)


def test_a_damaged_group_header_before_the_last_group_stops_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await crashed_after(tmp_path, 5)
        journal = journal_in_use(tmp_path)
        flip(journal, journal.read_bytes().index(b"\xab\x5e\x05", 200) + 24)
        with pytest.raises(Corrupt, match="a later group"):
            await found(tmp_path, ledger)

    run(scenario)


def test_damage_at_the_end_of_a_journal_file_that_was_left_stops_the_start(tmp_path: Path) -> None:
    """Nothing follows it in its own file; the next file tells where it ended."""

    async def scenario() -> None:
        config = EngineConfig(journal_file_bytes=20_000, reserve_bytes=0, owed_bytes=1 << 20)
        world = system_world(tmp_path)
        store = await FileLedgerStore.start(world, config)
        store._checkpoint.request = lambda: None  # type: ignore[method-assign]
        writer = await store.create({})
        for number in range(0, 200, 10):
            await writer.append(numbered(number, 10))
        await abandon(store)
        first, second = sorted(tmp_path.glob("storage/journal/*"))[:2]
        assert any(second.read_bytes())
        whole = first.read_bytes()
        last_group = whole.rindex(b"\xab\x5e\x05")
        first.write_bytes(whole[:last_group] + bytes(len(whole) - last_group))
        with pytest.raises(Corrupt, match="the next file"):
            await found(tmp_path, writer.ledger, config=config)
        first.unlink()
        with pytest.raises(Corrupt, match="is missing"):
            await found(tmp_path, writer.ledger, config=config)
        first.write_bytes(whole)
        assert await found(tmp_path, writer.ledger, config=config) == 200

    run(scenario)


def test_records_of_a_former_lap_are_not_replayed(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await crashed_after(tmp_path, 300, config=TINY)
        assert await found(tmp_path, ledger, config=TINY) == 3000
        files = list(tmp_path.glob("storage/journal/*"))
        assert len(files) <= TINY.journal_files
        assert {path.stat().st_size for path in files} == {TINY.journal_file_bytes}

    run(scenario)


def test_a_flipped_bit_in_a_ledger_file_is_reported_and_spares_its_neighbours(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        ledger = await stopped_after(tmp_path, 20)
        path = only(tmp_path, "ledgers/*[0-9a-f][0-9a-f]")
        flip(path, 77 * 148 + 100)
        store = await FileLedgerStore.start(system_world(tmp_path), ROOMY)
        reader = await store.open(ledger)
        for _ in range(2):
            with pytest.raises(Corrupt, match="entry 77 fails") as caught:
                await reader.read(77, max_entries=5, max_bytes=1000)
            assert (caught.value.ledger, caught.value.entry) == (ledger, 77)
        before = await reader.read(70, max_entries=100, max_bytes=1 << 20)
        assert [entry.entry for entry in before] == list(range(70, 77))
        behind = await reader.read(78, max_entries=1000, max_bytes=1 << 20)
        assert [entry.entry for entry in behind] == list(range(78, 200))
        await store.close()

    run(scenario)


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "empty"])
def test_a_damaged_index_is_made_again(tmp_path: Path, harm: str) -> None:
    async def scenario() -> None:
        ledger = await stopped_after(tmp_path, 20)
        path = only(tmp_path, "ledgers/*.index")
        sound = path.read_bytes()
        match harm:
            case "flip":
                flip(path, len(sound) - 5)
            case "cut":
                path.write_bytes(sound[:-10])
            case "remove":
                path.unlink()
            case "empty":
                path.write_bytes(b"")
        assert await found(tmp_path, ledger) == 200
        assert path.read_bytes()

    run(scenario)


def test_a_ledger_file_that_is_gone_is_corrupt_and_others_are_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await stopped_after(tmp_path, 3)
        only(tmp_path, "ledgers/*[0-9a-f][0-9a-f]").unlink()
        store = await FileLedgerStore.start(system_world(tmp_path), ROOMY)
        with pytest.raises(Corrupt) as caught:
            await (await store.open(ledger)).read(7, max_entries=1, max_bytes=1)
        assert (caught.value.ledger, caught.value.entry) == (ledger, 7)
        other = await store.create({})
        await other.append(numbered(0, 3))
        check_holds(await read_all(other), other.ledger, numbered(0, 3))
        await store.close()

    run(scenario)


def test_a_cut_ledger_file_is_corrupt_behind_the_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await stopped_after(tmp_path, 3)
        path = only(tmp_path, "ledgers/*[0-9a-f][0-9a-f]")
        path.write_bytes(path.read_bytes()[: 12 * 148 + 60])
        store = await FileLedgerStore.start(system_world(tmp_path), ROOMY)
        reader = await store.open(ledger)
        entries = await reader.read(0, max_entries=100, max_bytes=1 << 20)
        assert len(entries) == 12
        with pytest.raises(Corrupt) as caught:
            await reader.read(12, max_entries=1, max_bytes=1)
        assert (caught.value.ledger, caught.value.entry) == (ledger, 12)
        with pytest.raises(Corrupt):
            await reader.read(29, max_entries=1, max_bytes=1)
        await store.close()

    run(scenario)


def test_a_damaged_manifest_stops_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await stopped_after(tmp_path, 3)
        path = only(tmp_path, "manifest")
        for offset in (0, 5, 20, path.stat().st_size - 1):
            flip(path, offset)
            with pytest.raises(Corrupt, match="manifest"):
                await found(tmp_path, ledger)
            flip(path, offset)
        assert await found(tmp_path, ledger) == 30

    run(scenario)


def test_a_missing_manifest_stops_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await stopped_after(tmp_path, 3)
        only(tmp_path, "manifest").unlink()
        with pytest.raises(Corrupt, match="manifest is missing"):
            await found(tmp_path, ledger)

    run(scenario)


def test_what_interrupted_steps_left_behind_is_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await stopped_after(tmp_path, 3)
        left = ["manifest.new", "journal/new", f"ledgers/{99:016x}", f"ledgers/{99:016x}.index"]
        for name in left:
            (tmp_path / "storage" / name).write_bytes(b"half a")
        assert await found(tmp_path, ledger) == 30
        assert not [name for name in left if (tmp_path / "storage" / name).exists()]

    run(scenario)


def test_garbage_behind_the_end_of_a_ledger_file_is_cut_off(tmp_path: Path) -> None:
    """Its unsynced growth may survive a power cut as zeros, or as anything it held before."""

    async def scenario() -> None:
        ledger = await crashed_after(tmp_path, 5)
        path = tmp_path / "storage" / "ledgers" / f"{ledger:016x}"
        path.write_bytes(b"\0" * 9000)
        assert await found(tmp_path, ledger) == 50
        assert path.stat().st_size == 50 * 148

    run(scenario)


def test_a_recovery_that_is_broken_off_can_be_done_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await crashed_after(tmp_path, 5)
        for calls in range(100):
            world, disk = faulty(system_world(tmp_path))
            fault = disk.fail(lambda what, path: True, after=calls)
            try:
                await recover_storage(world.disk, ROOMY)
            except OSError:
                assert fault.hits == 1
            else:
                break
        assert fault.hits == 0
        assert calls > 10
        assert await found(tmp_path, ledger) == 50

    run(scenario)


def test_the_manifest_is_rewritten_at_every_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        await crashed_after(tmp_path, 1)
        disk = system_world(tmp_path).disk
        before = await load_manifest(disk, "storage/manifest")
        store = await FileLedgerStore.start(system_world(tmp_path), ROOMY)
        after = await load_manifest(disk, "storage/manifest")
        await store.close()
        assert before is not None
        assert after is not None
        assert after.replay_from > before.replay_from
        assert [row.entries for row in after.ledgers] == [10]
        assert after.next_ledger == 2

    run(scenario)


def test_journal_files_of_another_size_are_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await crashed_after(tmp_path, 5)
        assert await found(tmp_path, ledger, config=TINY) == 50
        sizes = {path.stat().st_size for path in tmp_path.glob("storage/journal/*")}
        assert sizes == {TINY.journal_file_bytes}

    run(scenario)
