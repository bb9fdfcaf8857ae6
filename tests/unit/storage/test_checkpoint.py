"""The order of a checkpoint's steps, as the disk sees them: that order is the whole promise."""

from __future__ import annotations

import asyncio
from pathlib import Path

from anabranch.runtime.system import system_world
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.manifest import Manifest, load_manifest
from tests.faulty_disk import FaultyDisk, faulty
from tests.ledger_contract import numbered
from tests.ledger_engines import TINY


async def written(directory: Path, batches: int) -> tuple[FaultyDisk, Manifest]:
    world, disk = faulty(system_world(directory))
    store = await FileLedgerStore.start(world, TINY)
    writers = [await store.create({}) for _ in range(2)]
    disk.calls.clear()
    for number in range(0, 20 * batches, 20):
        for writer in writers:
            await writer.append(numbered(number, 20))
    await store.close()
    manifest = await load_manifest(world.disk, TINY.manifest_path)
    assert manifest is not None
    return disk, manifest


def test_ledgers_are_synced_before_the_manifest_and_the_manifest_before_journals_are_reused(
    tmp_path: Path,
) -> None:
    disk, _ = asyncio.run(written(tmp_path, 60))
    unsynced: set[str] = set()
    manifest_is_durable = True
    reused = 0
    for what, path in disk.calls:
        in_ledger = "/ledgers/" in path and not path.endswith(".index")
        if what == "write" and in_ledger:
            unsynced.add(path)
        elif what == "sync" and in_ledger:
            unsynced.discard(path)
        elif what == "rename" and path == TINY.manifest_path:
            manifest_is_durable = False
        elif what == "sync_directory" and path == TINY.directory:
            manifest_is_durable = True
        elif what == "rename" and "/journal/" in path:
            assert manifest_is_durable, "a journal file was reused before the manifest was safe"
            reused += 1
    assert not unsynced, "a clean stop leaves nothing unsynced"
    assert reused > 3


def test_a_journal_file_is_renamed_durably_before_it_is_written_to(tmp_path: Path) -> None:
    disk, _ = asyncio.run(written(tmp_path, 60))
    renamed: set[str] = set()
    for what, path in disk.calls:
        if what == "rename" and "/journal/" in path:
            renamed.add(path)
        elif what == "sync_directory" and path == TINY.journal_directory:
            renamed.clear()
        elif what == "write":
            assert path not in renamed


def test_every_manifest_vouches_only_for_synced_bytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        _, manifest = await written(tmp_path, 10)
        for row in manifest.ledgers:
            path = tmp_path / TINY.ledger_path(row.ledger)
            assert row.file_bytes == path.stat().st_size == 200 * 148
            assert row.entries == 200
            assert row.last_entry is None

    asyncio.run(scenario())
