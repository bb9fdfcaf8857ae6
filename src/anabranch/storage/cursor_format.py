"""The entries of a cursor ledger, to and from bytes. The format itself is cursor.proto.

Runs are stored as distances, so ten thousand holes in one ledger take some twenty kilobytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from google.protobuf.message import DecodeError

from anabranch.errors import InvalidInput
from anabranch.storage import cursor_pb2 as pb
from anabranch.storage.cursor import CursorChange, Runs
from anabranch.topics.positions import Position


@dataclass(frozen=True, slots=True)
class CursorRecord:
    changes: Mapping[str, CursorChange] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    is_snapshot: bool = False


def encode_record(record: CursorRecord) -> bytes:
    message = pb.Record(deleted=record.deleted)
    if record.is_snapshot:
        message.snapshot = True
    for name, change in record.changes.items():
        _fill(message.cursors.add(), name, change)
    return message.SerializeToString()


def parse_record(data: bytes) -> CursorRecord:
    """InvalidInput unless these are bytes that `encode_record` could have made."""
    message = pb.Record()
    try:
        message.ParseFromString(data)
        changes = {cursor.name: _change(cursor) for cursor in message.cursors}
        deleted = tuple(message.deleted)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"not a cursor record ({len(data)} bytes): {error}") from error
    return CursorRecord(changes, deleted, message.snapshot)


def _fill(cursor: pb.Cursor, name: str, change: CursorChange) -> None:
    cursor.name = name
    cursor.mark_ledger, cursor.mark_entry = change.mark_delete
    if change.replaces:
        cursor.replaces = True
    cursor.properties.update(change.properties)
    acks: dict[int, pb.Acks] = {}
    for ledger in sorted({*change.runs, *(position.ledger for position in change.batches)}):
        acks[ledger] = cursor.acks.add(ledger=ledger)
    for ledger, runs in change.runs.items():
        acks[ledger].runs.extend(_distances(runs))
    for position, left in change.batches.items():
        size = (left.bit_length() + 7) // 8
        acks[position.ledger].batches.add(
            entry=position.entry, unacked=left.to_bytes(size, "little")
        )


def _distances(runs: Runs) -> list[int]:
    distances = [0] * (2 * len(runs))
    ends = [0, *(last + 1 for _, last in runs)]
    distances[::2] = [first - end for (first, _), end in zip(runs, ends, strict=False)]
    distances[1::2] = [last - first + 1 for first, last in runs]
    return distances


def _change(cursor: pb.Cursor) -> CursorChange:
    batches = {
        Position(acks.ledger, batch.entry): int.from_bytes(batch.unacked, "little")
        for acks in cursor.acks
        for batch in acks.batches
    }
    return CursorChange(
        mark_delete=Position(cursor.mark_ledger, cursor.mark_entry),
        runs={acks.ledger: _runs(acks) for acks in cursor.acks if acks.runs},
        batches=batches,
        properties=dict(cursor.properties),
        replaces=cursor.replaces,
    )


def _runs(acks: pb.Acks) -> Runs:
    if len(acks.runs) % 2:
        raise InvalidInput(f"cursor record: {len(acks.runs)} run distances in ledger {acks.ledger}")
    # Added up, distances are the first of a run and the one behind its last, in turn.
    bounds = list(accumulate(acks.runs))
    runs = tuple((first, end - 1) for first, end in zip(bounds[::2], bounds[1::2], strict=True))
    if any(last < first for first, last in runs):
        raise InvalidInput(f"cursor record: empty run in ledger {acks.ledger}")
    return runs
