"""Records of managed ledgers, kept in the metadata store.

Storage declares what it needs (`ManagedLedgerRecords`) and knows no store; this is the one place
where the two meet. The record lies at its topic's path, the names of its cursors are its children;
their value is the epoch of the owner that listed them, so that a former one cannot undo it.
"""

from __future__ import annotations

import contextlib

from anabranch.errors import BadVersion, NotFound, Unavailable
from anabranch.metadata import records
from anabranch.metadata.store import NEW, MetadataStore
from anabranch.storage.managed_record import (
    ManagedRecord,
    encode_managed_record,
    parse_managed_record,
)
from anabranch.topics.names import parse_topic_name

# Nobody but a former owner writes these too, and it stops soon.
ATTEMPTS = 8


class StoredLedgerRecords:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def load(self, name: str) -> tuple[ManagedRecord, int] | None:
        found = await self._store.get(path_of(name))
        if found is None:
            return None
        value, stat = found
        return parse_managed_record(value), stat.version

    async def save(self, name: str, record: ManagedRecord, expected: int) -> int:
        stat = await self._store.put(path_of(name), encode_managed_record(record), expected)
        return stat.version

    async def delete(self, name: str, expected: int) -> None:
        path = path_of(name)
        found = await self._store.get(path)
        if found is None:
            return
        if found[1].version != expected:
            raise BadVersion(f"{path} is at version {found[1].version}, not {expected}")
        # Names first: a record without its cursors' names can be deleted again, names without
        # their record would be found by nobody.
        for child in await self._store.children(path):
            await self._remove(f"{path}/{child}")
        try:
            await self._store.delete(path, expected)
        except NotFound:
            return

    async def cursor_names(self, name: str) -> list[str]:
        return sorted(map(records.decode_element, await self._store.children(path_of(name))))

    async def add_cursor_name(self, name: str, cursor: str, epoch: int) -> None:
        path = records.cursor(path_of(name), cursor)
        for _ in range(ATTEMPTS):
            found = await self._store.get(path)
            if found is not None and _epoch_of(found[0]) >= epoch:
                return
            with contextlib.suppress(BadVersion):
                version = NEW if found is None else found[1].version
                await self._store.put(path, str(epoch).encode(), version)
                return
        raise Unavailable(f"{path} changed {ATTEMPTS} times while it was being listed")

    async def remove_cursor_name(self, name: str, cursor: str, epoch: int) -> None:
        path = records.cursor(path_of(name), cursor)
        for _ in range(ATTEMPTS):
            found = await self._store.get(path)
            if found is None or _epoch_of(found[0]) > epoch:
                return
            with contextlib.suppress(BadVersion, NotFound):
                await self._store.delete(path, found[1].version)
                return
        raise Unavailable(f"{path} changed {ATTEMPTS} times while it was being removed")

    async def _remove(self, path: str) -> None:
        try:
            await self._store.delete(path)
        except NotFound:
            return


def _epoch_of(value: bytes) -> int:
    """The epoch of the owner that listed a cursor."""
    return int(value) if value.isdigit() else 0


def path_of(name: str) -> str:
    topic = parse_topic_name(name)
    descriptor = "" if topic.descriptor is None else f"/{topic.descriptor}"
    return records.managed_ledger(
        topic.tenant, topic.namespace.namespace, topic.domain.value, topic.local + descriptor
    )
