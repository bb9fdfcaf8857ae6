"""The ledger table as of the last checkpoint: what the journal need not say again.

Everything that was acknowledged is here or in the journal files from `replay_from` on; older ones
may be used again. A row tells how much of a ledger's file is known to be on disk.

The file: "ABMF", u32 version, u32 length, u32 CRC32C of the rest (big-endian), then JSON:

    {"next_ledger": 7, "replay_from": 3,
     "ledgers": [[id, entries, bytes, last entry or null while open, {properties}], ...]}

It is written beside, synced, renamed over the old one, and the directory synced, so there is one
whole manifest at every moment after the first start. A missing or damaged one stops the start.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from crc32c import crc32c

from anabranch.errors import Corrupt
from anabranch.runtime.world import Disk

_HEAD = struct.Struct(">4sIII")
_MAGIC = b"ABMF"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class LedgerRow:
    ledger: int
    entries: int  # in its file, and synced
    file_bytes: int
    last_entry: int | None  # None: not closed
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    next_ledger: int = 1
    replay_from: int = 1  # the first journal generation that is still needed
    ledgers: tuple[LedgerRow, ...] = ()


def encode_manifest(manifest: Manifest) -> bytes:
    rows = [
        [row.ledger, row.entries, row.file_bytes, row.last_entry, dict(row.properties)]
        for row in manifest.ledgers
    ]
    table = {
        "next_ledger": manifest.next_ledger,
        "replay_from": manifest.replay_from,
        "ledgers": rows,
    }
    body = json.dumps(table, separators=(",", ":")).encode()
    return _HEAD.pack(_MAGIC, _VERSION, len(body), crc32c(body)) + body


def parse_manifest(data: bytes) -> Manifest:
    if len(data) < _HEAD.size:
        raise Corrupt(f"the manifest has {len(data)} bytes; its head alone has {_HEAD.size}")
    magic, version, length, checksum = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if magic != _MAGIC or len(body) != length or crc32c(body) != checksum:
        raise Corrupt(
            f"the manifest is damaged: {len(body)} bytes of {length}, checksum "
            f"{crc32c(body):#010x}, expected {checksum:#010x}"
        )
    if version != _VERSION:
        raise Corrupt(f"the manifest has version {version}; this program reads {_VERSION}")
    table = json.loads(body)
    rows = tuple(LedgerRow(*row) for row in table["ledgers"])
    return Manifest(table["next_ledger"], table["replay_from"], rows)


async def load_manifest(disk: Disk, path: str) -> Manifest | None:
    """None if there is none: a fresh directory."""
    try:
        file = await disk.open(path)
    except FileNotFoundError:
        return None
    try:
        return parse_manifest(await file.read(0, await file.size()))
    finally:
        await file.close()


async def save_manifest(disk: Disk, path: str, manifest: Manifest) -> None:
    """Durable once this returns; before that the old one is untouched."""
    beside = f"{path}.new"
    data = encode_manifest(manifest)
    file = await disk.open(beside, create=True)
    try:
        await file.truncate(0)
        await file.write(0, [data], sync=True)
        await file.sync()
    finally:
        await file.close()
    await disk.rename(beside, path)
    await disk.sync_directory(path.rpartition("/")[0])
