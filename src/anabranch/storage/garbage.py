"""Ledgers that nobody refers to: what crashes leave between two steps.

A ledger is created before the record names it and deleted after the record has forgotten it, so
a crash may strand one, never lose one. An hour is far longer than any step takes; a ledger
younger than that may be about to be named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from anabranch.errors import NotFound
from anabranch.storage.ledger import LedgerStore
from anabranch.storage.managed_record import ManagedRecord

MIN_AGE_MS = 3_600_000
CREATED_KEY = "created-ms"


def ledger_properties(name: str, kind: str, epoch: int, now_ms: int) -> dict[str, str]:
    """What every ledger of a managed ledger says about itself, for collection and for people."""
    return {
        "managed-ledger": name,
        "kind": kind,
        "epoch": str(epoch),
        CREATED_KEY: str(now_ms),
    }


def referenced_ledgers(record: ManagedRecord) -> set[int]:
    found = {info.ledger for info in record.ledgers}
    if record.cursor_ledger is not None:
        found.add(record.cursor_ledger.ledger)
    return found


async def find_garbage(
    store: LedgerStore, referenced: Collection[int], now_ms: int, min_age_ms: int = MIN_AGE_MS
) -> list[int]:
    """Ledgers of ours that no record names and that are old enough to say so.

    Those that do not say when they were made are somebody else's, and left alone.
    """
    garbage = []
    async for ledger in store.ledgers():
        if ledger not in referenced:
            created = await _created_ms(store, ledger)
            if created is not None and now_ms - created >= min_age_ms:
                garbage.append(ledger)
    return garbage


async def _created_ms(store: LedgerStore, ledger: int) -> int | None:
    try:
        properties: Mapping[str, str] = await store.properties(ledger)
    except NotFound:
        return None  # deleted while we looked
    text = properties.get(CREATED_KEY, "")
    return int(text) if text.isdecimal() else None
