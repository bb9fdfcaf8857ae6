"""A read cache above any engine, kept right by watches.

`CachedStore` is itself a MetadataStore: whoever uses it in place of the store it wraps gets reads
from memory and loses nothing. What it promises beyond the contract:

- a read that begins after a notification was delivered *by this object* never returns what was
  there before the change: it hears every notification first, then passes it on;
- a session reads its own writes: what a write may have touched is dropped once it has ended,
  however it ended;
- after a gap (`Resync`) nothing older is served. While the store is out of reach the cache goes
  on answering, for no longer than the session lasts: losing that empties it.

A value may be kept only if nothing was heard of its path since its read began; reads under way
are therefore tracked, and shared by all who ask meanwhile. Absence is remembered too. The bound
counts records and bytes; the least recently used go first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from anabranch.metadata.store import (
    ROOT,
    ChildrenChanged,
    ConnectionLost,
    Listener,
    MetadataStore,
    Notification,
    Resync,
    SessionEvent,
    SessionListener,
    Stat,
    Watch,
    ancestors_of,
    check_path,
    check_record_path,
    is_within,
)
from anabranch.metadata.watches import Watches

MAX_RECORDS: Final = 50_000
MAX_BYTES: Final = 64 * 1024 * 1024
# What an entry costs besides its value: path, Stat, and the dictionary's own.
_ENTRY_BYTES: Final = 400

T = TypeVar("T")


class Shelf(Generic[T]):
    """Answers of one kind by path, bounded, with the reads that are under way."""

    def __init__(
        self,
        load: Callable[[str], Awaitable[T]],
        size: Callable[[T], int],
        max_records: int,
        max_bytes: int,
    ) -> None:
        self.hits = 0
        self.misses = 0
        self.used_bytes = 0
        self._load = load
        self._size = size
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._loading: dict[str, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, path: str) -> T:
        if path in self._kept:
            self.hits += 1
            self._kept.move_to_end(path)
            return self._kept[path]
        self.misses += 1
        loading = self._loading.get(path)
        if loading is None:
            loading = asyncio.get_running_loop().create_task(self._read(path))
            loading.add_done_callback(_take_note)
            self._loading[path] = loading
        # Shielded: one who no longer wants the answer must not take it from the others.
        return await asyncio.shield(loading)

    def drop(self, path: str) -> None:
        # A read under way may have seen the old value: who joined it before now may have that,
        # but nobody joins from here on, and it is not kept.
        self._loading.pop(path, None)
        if path in self._kept:
            self.used_bytes -= _ENTRY_BYTES + self._size(self._kept.pop(path))

    def drop_within(self, prefix: str) -> None:
        for path in [path for path in (*self._kept, *self._loading) if is_within(path, prefix)]:
            self.drop(path)

    async def _read(self, path: str) -> T:
        this = asyncio.current_task()
        try:
            answer = await self._load(path)
            if self._loading.get(path) is this:
                self._keep(path, answer)
            return answer
        finally:
            if self._loading.get(path) is this:
                del self._loading[path]

    def _keep(self, path: str, answer: T) -> None:
        self._kept[path] = answer
        self.used_bytes += _ENTRY_BYTES + self._size(answer)
        while len(self._kept) > self._max_records or self.used_bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self.used_bytes -= _ENTRY_BYTES + self._size(oldest)


def _take_note(loading: asyncio.Task[T]) -> None:
    """If everybody who asked is gone, a failure is nobody's business; asyncio would complain."""
    if not loading.cancelled():
        loading.exception()


@dataclass(frozen=True, slots=True)
class CacheStats:
    records: int
    used_bytes: int
    hits: int
    misses: int


class CachedStore:
    def __init__(
        self, store: MetadataStore, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES
    ) -> None:
        self._store = store
        self._watches = Watches()
        self._records = Shelf(store.get, _record_bytes, max_records, max_bytes)
        self._listings = Shelf(self._list, _listing_bytes, max_records, max_bytes)
        self._own = (store.watch(ROOT, self._heard), store.on_session(self._session_changed))

    @property
    def stats(self) -> CacheStats:
        shelves = (self._records, self._listings)
        return CacheStats(
            records=sum(len(shelf) for shelf in shelves),
            used_bytes=sum(shelf.used_bytes for shelf in shelves),
            hits=sum(shelf.hits for shelf in shelves),
            misses=sum(shelf.misses for shelf in shelves),
        )

    async def get(self, path: str) -> tuple[bytes, Stat] | None:
        return await self._records.get(path)

    async def exists(self, path: str) -> bool:
        return await self.get(path) is not None

    async def children(self, path: str) -> list[str]:
        return list(await self._listings.get(path))

    async def scan(self, path: str) -> AsyncIterator[tuple[bytes, Stat]]:
        async for record in self._store.scan(path):
            yield record

    async def sync(self, path: str) -> None:
        """Others' finished writes may not have been announced here yet: forget what lies there."""
        await self._store.sync(path)
        self._drop_within(path)

    async def put(
        self,
        path: str,
        value: bytes,
        expected: int | None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Stat:
        check_record_path(path)
        written = path
        try:
            stat = await self._store.put(
                path, value, expected, ephemeral=ephemeral, sequential=sequential
            )
            written = stat.path
            return stat
        finally:
            self._drop(written)

    async def delete(self, path: str, expected: int | None = None) -> None:
        check_record_path(path)
        try:
            await self._store.delete(path, expected)
        finally:
            self._drop(path)

    async def delete_recursive(self, path: str) -> None:
        check_path(path)
        try:
            await self._store.delete_recursive(path)
        finally:
            self._drop_within(path)
            self._drop(path)

    def watch(self, prefix: str, listener: Listener, *, recursive: bool = True) -> Watch:
        return self._watches.add(prefix, listener, recursive=recursive)

    def on_session(self, listener: SessionListener) -> Watch:
        return self._store.on_session(listener)

    async def close(self) -> None:
        for watch in self._own:
            watch.close()
        self._watches.close()
        self._drop_within(ROOT)
        await self._store.close()

    async def _list(self, path: str) -> tuple[str, ...]:
        return tuple(await self._store.children(path))

    def _heard(self, notification: Notification) -> None:
        match notification:
            case Resync(path):
                self._drop_within(path)
                self._watches.resync()
            case ChildrenChanged(path):
                self._listings.drop(path)
                self._watches.publish((notification,))
            case _:
                self._records.drop(notification.path)
                self._watches.publish((notification,))

    def _session_changed(self, event: SessionEvent) -> None:
        # The Resync after a return is on its way through a queue; whoever hears of the return
        # by this event must not be served from before the gap either.
        if not isinstance(event, ConnectionLost):
            self._drop_within(ROOT)

    def _drop(self, path: str) -> None:
        """What a write to this path may have changed: it, and listings up to the root."""
        self._records.drop(path)
        for parent in ancestors_of(path):
            self._listings.drop(parent)

    def _drop_within(self, prefix: str) -> None:
        self._records.drop_within(prefix)
        self._listings.drop_within(prefix)


def _record_bytes(record: tuple[bytes, Stat] | None) -> int:
    return 0 if record is None else len(record[0])


def _listing_bytes(names: tuple[str, ...]) -> int:
    return sum(len(name) + 60 for name in names)
