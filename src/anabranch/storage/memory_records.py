"""Records of managed ledgers in memory, for tests: shared by processes, as a store would be.

Records are kept as the bytes a store would get. A test may let the next `save` fail with its
outcome unknown, having been applied or not.
"""

from __future__ import annotations

import asyncio

from anabranch.errors import BadVersion, Unavailable
from anabranch.storage.managed_record import (
    ManagedRecord,
    encode_managed_record,
    parse_managed_record,
)


class MemoryRecords:
    def __init__(self) -> None:
        self._records: dict[str, tuple[bytes, int]] = {}
        self._names: dict[str, dict[str, int]] = {}  # ledger -> cursor -> epoch of who listed it
        self._last_version = 0
        self._failure_is_applied: bool | None = None

    def fail_next_save(self, *, is_applied: bool) -> None:
        self._failure_is_applied = is_applied

    def fail_nothing(self) -> None:
        self._failure_is_applied = None

    async def load(self, name: str) -> tuple[ManagedRecord, int] | None:
        await asyncio.sleep(0)
        found = self._records.get(name)
        return None if found is None else (parse_managed_record(found[0]), found[1])

    async def save(self, name: str, record: ManagedRecord, expected: int) -> int:
        await asyncio.sleep(0)
        is_applied, self._failure_is_applied = self._failure_is_applied, None
        if is_applied is False:
            raise Unavailable(f"record {name}: connection lost before the request was sent")
        version = self._put(name, record, expected)
        if is_applied:
            raise Unavailable(f"record {name}: connection lost before the answer came")
        return version

    def _put(self, name: str, record: ManagedRecord, expected: int) -> int:
        self._check(name, expected)
        self._last_version += 1
        self._records[name] = encode_managed_record(record), self._last_version
        return self._last_version

    def _check(self, name: str, expected: int) -> None:
        _, version = self._records.get(name, (b"", -1))
        if version != expected:
            raise BadVersion(f"record {name} has version {version}, expected {expected}")

    async def delete(self, name: str, expected: int) -> None:
        await asyncio.sleep(0)
        if name in self._records:
            self._check(name, expected)
            del self._records[name]
        self._names.pop(name, None)

    async def cursor_names(self, name: str) -> list[str]:
        await asyncio.sleep(0)
        return sorted(self._names.get(name, ()))

    async def add_cursor_name(self, name: str, cursor: str, epoch: int) -> None:
        await asyncio.sleep(0)
        names = self._names.setdefault(name, {})
        names[cursor] = max(epoch, names.get(cursor, epoch))

    async def remove_cursor_name(self, name: str, cursor: str, epoch: int) -> None:
        await asyncio.sleep(0)
        names = self._names.get(name, {})
        if names.get(cursor, epoch) <= epoch:
            names.pop(cursor, None)
