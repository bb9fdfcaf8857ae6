"""Starting: the manifest and the journal give back everything that was acknowledged.

1. Read the manifest. It is the first file ever written, so a directory without one must be empty.
2. Read the journal files from the manifest's `replay_from` on, by rising generation. The first
   group of each says where the one before it ended: together with the rule of journal_scan.py,
   damage inside the log is told from a torn end, and refused with `Corrupt`.
3. Write entries that the manifest does not vouch for to their ledger's file, at the offset where
   they belong; cut the files there; sync them, and their directory.
4. Save a manifest that needs none of these journal files, and begin a new generation.

Nothing before step 4 changes what the next recovery would find, so it may be broken off anywhere.
Ledger files that no ledger owns, and what an interrupted rename left behind, are removed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.errors import Corrupt
from anabranch.runtime.world import Disk
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_handles import FileHandles
from anabranch.storage.journal_scan import JournalScan, Stop
from anabranch.storage.ledger import LedgerEnd
from anabranch.storage.ledger_table import Access, LedgerState, LedgerTable
from anabranch.storage.manifest import LedgerRow, Manifest, load_manifest, save_manifest
from anabranch.storage.record_codec import HEADER_BYTES, Record
from anabranch.storage.replay import Replay, ReplayedLedger

log = logging.getLogger(__name__)
# Entries collected for their ledgers' files before they are written.
_COLLECT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Recovered:
    table: LedgerTable
    next_generation: int
    free: list[int]  # generations whose files may be used again
    replayed_entries: int
    dropped_bytes: int  # of a last group that was torn, and so never acknowledged


async def recover_storage(disk: Disk, config: EngineConfig) -> Recovered:
    generations = await _journal_generations(disk, config)
    manifest = await load_manifest(disk, config.manifest_path)
    if manifest is None:
        await _refuse_unless_empty(disk, config, generations)
        manifest = Manifest()
    handles = FileHandles(disk, config.open_files)
    recovery = _Recovery(disk, config, handles, Replay(manifest))
    try:
        dropped = await recovery.read_journal(
            [generation for generation in generations if generation >= manifest.replay_from],
            manifest.replay_from,
        )
        await recovery.write_ledgers()
    finally:
        await handles.close()
    next_generation = max([manifest.replay_from - 1, *generations]) + 1
    replay = recovery.replay
    await save_manifest(disk, config.manifest_path, _manifest_of(replay, next_generation))
    await _remove_orphans(disk, config, replay)
    free = await _free_files(disk, config, generations)
    ledgers = {ledger: _state_of(found) for ledger, found in sorted(replay.ledgers.items())}
    log.info(
        "storage recovered ledgers=%d replayed_entries=%d dropped_bytes=%d",
        len(ledgers),
        replay.entries,
        dropped,
    )
    return Recovered(
        LedgerTable(replay.next_ledger, ledgers), next_generation, free, replay.entries, dropped
    )


class _Recovery:
    def __init__(
        self, disk: Disk, config: EngineConfig, handles: FileHandles, replay: Replay
    ) -> None:
        self._disk = disk
        self._config = config
        self._handles = handles
        self._former: tuple[int, Stop] | None = None
        self._expected = 0
        self.replay = replay

    async def read_journal(self, generations: Sequence[int], replay_from: int) -> int:
        """Replay the files; how many bytes of a torn last group were dropped."""
        self._expected = replay_from
        dropped = 0
        for generation in generations:
            stop = await self._read_file(generation)
            if stop.later_group is not None:
                raise self._damage(generation, stop, f"a later group at {stop.later_group}")
            if stop.groups or stop.kept > stop.end:
                self._former = generation, stop
                self._expected = generation + 1
                dropped = stop.torn_bytes
        self.replay.finish()
        if dropped:
            log.warning("dropped a torn group that was never acknowledged bytes=%d", dropped)
        return dropped

    async def write_ledgers(self) -> None:
        """Bring every replayed entry to its ledger's file, and sync what changed."""
        await self._write_pieces()
        for found in self.replay.ledgers.values():
            if found.was_touched:
                path = self._config.ledger_path(found.ledger)
                async with self._handles.use(path, create=True) as file:
                    await file.truncate(found.file_bytes)
                    await file.sync()
        await self._disk.sync_directory(self._config.ledger_directory)

    async def _read_file(self, generation: int) -> Stop:
        file = await self._disk.open(self._config.journal_path(generation))

        def take_previous_end(offset: int) -> None:
            self._check_order(generation, offset)

        try:
            scan = JournalScan(
                file, generation, await file.size(), self._take_records, take_previous_end
            )
            return await scan.run()
        finally:
            await file.close()

    def _check_order(self, generation: int, previous_end: int) -> None:
        """A group is proof that all of the journal before it was acknowledged: is it there?"""
        if generation != self._expected:
            raise Corrupt(
                f"journal file {self._config.journal_path(self._expected)} is missing or holds "
                f"nothing, though {self._config.journal_path(generation)} has been written to"
            )
        if self._former is not None:
            former, stop = self._former
            if stop.end != previous_end:
                raise self._damage(former, stop, f"the next file, where it ends at {previous_end}")

    def _damage(self, generation: int, stop: Stop, proof: str) -> Corrupt:
        entry = "" if stop.entry is None else f", ledger {stop.ledger} entry {stop.entry}"
        return Corrupt(
            f"journal file {self._config.journal_path(generation)} is damaged at {stop.kept}"
            f"{entry}: these entries were acknowledged, as shown by {proof}",
            ledger=stop.ledger,
            entry=stop.entry,
        )

    async def _take_records(self, window: bytes, records: Sequence[Record]) -> None:
        for record in records:
            self.replay.apply(window, record)
        if self.replay.pending_bytes >= _COLLECT_BYTES:
            await self._write_pieces()

    async def _write_pieces(self) -> None:
        for found in self.replay.ledgers.values():
            if found.pieces:
                offset, pieces = found.take_pieces()
                path = self._config.ledger_path(found.ledger)
                async with self._handles.use(path, create=True) as file:
                    await file.write(offset, pieces)
        self.replay.pending_bytes = 0


async def _journal_generations(disk: Disk, config: EngineConfig) -> list[int]:
    names = await disk.list_directory(config.journal_directory)
    if "new" in names:
        await disk.remove(f"{config.journal_directory}/new")
    return sorted(int(name, 16) for name in names if _is_id(name))


async def _refuse_unless_empty(
    disk: Disk, config: EngineConfig, generations: Sequence[int]
) -> None:
    ledgers = await disk.list_directory(config.ledger_directory)
    if generations or ledgers:
        raise Corrupt(
            f"{config.manifest_path} is missing, though there are {len(generations)} journal files "
            f"and {len(ledgers)} ledger files: put it back, or use another directory"
        )


async def _free_files(disk: Disk, config: EngineConfig, generations: Sequence[int]) -> list[int]:
    """Old journal files that can be used again; others, of another size, are removed."""
    free: list[int] = []
    for generation in generations:
        path = config.journal_path(generation)
        file = await disk.open(path)
        size = await file.size()
        await file.close()
        if size == config.journal_file_bytes and len(free) < config.journal_files:
            free.append(generation)
        else:
            await disk.remove(path)
    return free


async def _remove_orphans(disk: Disk, config: EngineConfig, replay: Replay) -> None:
    with contextlib.suppress(FileNotFoundError):
        await disk.remove(f"{config.manifest_path}.new")
    for name in await disk.list_directory(config.ledger_directory):
        stem = name.removesuffix(".index")
        if _is_id(stem) and int(stem, 16) not in replay.ledgers:
            await disk.remove(f"{config.ledger_directory}/{name}")


def _is_id(name: str) -> bool:
    return len(name) == 16 and all(digit in "0123456789abcdef" for digit in name)


def _manifest_of(replay: Replay, replay_from: int) -> Manifest:
    rows = tuple(
        LedgerRow(found.ledger, found.entries, found.file_bytes, found.last_entry, found.properties)
        for _, found in sorted(replay.ledgers.items())
    )
    return Manifest(replay.next_ledger, replay_from, rows)


def _state_of(found: ReplayedLedger) -> LedgerState:
    state = LedgerState.restored(found.ledger, found.properties, found.entries, found.file_bytes)
    if found.last_entry is not None:
        state.access = Access.CLOSED
        state.end = LedgerEnd(found.last_entry, found.file_bytes - HEADER_BYTES * found.entries)
    return state
