"""From a manifest and the journal's records to the ledger table: what each ledger holds.

Replaying is idempotent: a record that the table already knows changes nothing, so a journal may be
replayed from any point that the manifest covers, and again after a crash half way. Entries that a
ledger's file does not have for certain are collected, with the offset they belong to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from anabranch.errors import Corrupt
from anabranch.runtime.world import Buffer
from anabranch.storage.manifest import Manifest
from anabranch.storage.record_codec import (
    CLOSE,
    CREATE,
    DELETE,
    ENTRY,
    HEADER_BYTES,
    Record,
    skip_records,
)


class ReplayedLedger:
    __slots__ = (
        "entries", "file_bytes", "last_entry", "ledger", "pieces", "pieces_bytes", "properties",
        "was_touched",
    )  # fmt: skip

    def __init__(
        self,
        ledger: int,
        properties: Mapping[str, str],
        entries: int = 0,
        file_bytes: int = 0,
        last_entry: int | None = None,
    ) -> None:
        self.ledger = ledger
        self.properties = properties
        self.entries = entries
        self.file_bytes = file_bytes  # of all entries, those in `pieces` included
        self.last_entry = last_entry  # None: not closed
        self.pieces: list[Buffer] = []  # to be written before `file_bytes`
        self.pieces_bytes = 0
        self.was_touched = False

    def take_pieces(self) -> tuple[int, list[Buffer]]:
        """What is to be written, and where."""
        offset, pieces = self.file_bytes - self.pieces_bytes, self.pieces
        self.pieces, self.pieces_bytes = [], 0
        return offset, pieces


class Replay:
    def __init__(self, manifest: Manifest) -> None:
        self.next_ledger = manifest.next_ledger
        self.ledgers = {
            row.ledger: ReplayedLedger(
                row.ledger, row.properties, row.entries, row.file_bytes, row.last_entry
            )
            for row in manifest.ledgers
        }
        self.pending_bytes = 0
        self.entries = 0

    def apply(self, window: bytes, record: Record) -> None:
        """Corrupt if the record cannot follow what came before it."""
        kind = record.kind
        if kind == ENTRY:
            self._apply_entries(window, record)
        elif kind == CREATE:
            self._apply_create(window, record)
        elif kind == CLOSE:
            self._apply_close(record)
        elif kind == DELETE:
            self._apply_delete(record)
        else:
            raise Corrupt(f"a journal record of unknown kind {kind}", ledger=record.ledger)

    def finish(self) -> None:
        """Corrupt if a closed ledger has not all its entries."""
        for found in self.ledgers.values():
            if found.last_entry is not None and found.entries <= found.last_entry:
                raise _gap(found, found.last_entry)

    def _apply_entries(self, window: bytes, record: Record) -> None:
        found = self.ledgers.get(record.ledger)
        behind = record.first + record.count
        if found is None or behind <= found.entries:
            return  # deleted since, or already in its file
        if record.first > found.entries or (
            found.last_entry is not None and behind > found.last_entry + 1
        ):
            raise _gap(found, record.first)
        start = skip_records(window, record.start, found.entries - record.first)
        found.pieces.append(window[start : record.end])
        found.pieces_bytes += record.end - start
        found.file_bytes += record.end - start
        found.was_touched = True
        self.pending_bytes += record.end - start
        self.entries += behind - found.entries
        found.entries = behind

    def _apply_create(self, window: bytes, record: Record) -> None:
        self.next_ledger = max(self.next_ledger, record.ledger + 1)
        if record.ledger not in self.ledgers:
            properties = json.loads(window[record.body : record.end])
            self.ledgers[record.ledger] = ReplayedLedger(record.ledger, properties)

    def _apply_close(self, record: Record) -> None:
        found = self.ledgers.get(record.ledger)
        if found is None:
            return
        length = found.file_bytes - HEADER_BYTES * found.entries
        if found.entries != record.first + 1 or length != record.time_ms:
            raise _gap(found, record.first)
        found.last_entry = record.first

    def _apply_delete(self, record: Record) -> None:
        found = self.ledgers.pop(record.ledger, None)
        if found is not None:
            self.pending_bytes -= found.pieces_bytes


def _gap(found: ReplayedLedger, entry: int) -> Corrupt:
    return Corrupt(
        f"ledger {found.ledger} has {found.entries} entries, and the journal goes on at {entry}: "
        "what lies between is lost",
        ledger=found.ledger,
        entry=found.entries,
    )
