"""Telling listeners what changed: in order, never blocking the store, never losing anything.

Every watch has a queue of its own and, while that is not empty, a task that empties it, so a slow
or failing listener delays nobody else. The queue is bounded: when it is full, all that waits in
it becomes a single `Resync`, which tells the listener to read again. That is lossless because a
change can be read before it is announced. For the same reason a notification equal to the last
one that still waits for the same path is left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from anabranch.errors import Closed
from anabranch.metadata.store import (
    ROOT,
    ChildrenChanged,
    Created,
    Listener,
    Modified,
    Notification,
    Resync,
    ancestors_of,
    check_path,
)

log = logging.getLogger(__name__)

MAX_PENDING: Final = 1_024

T = TypeVar("T")


class PathWatch:
    """One listener, its queue and its deliveries."""

    def __init__(self, watches: Watches, prefix: str, listener: Listener, *, recursive: bool):
        self.prefix = prefix
        self.recursive = recursive
        self._watches = watches
        self._listener = listener
        self._queue: deque[Notification] = deque()
        # The last one waiting per subject; what a new notification may be merged with.
        self._last: dict[tuple[bool, str], Notification] = {}
        self._delivery: asyncio.Task[None] | None = None
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._forget_queue()
        self._watches.remove(self)

    def offer(self, notification: Notification) -> None:
        if self._closed:
            return
        if isinstance(notification, Resync) or len(self._queue) >= self._watches.max_pending:
            self._forget_queue()
            self._enqueue(Resync(self.prefix))
        elif not self._is_covered(notification):
            self._enqueue(notification)

    def _is_covered(self, notification: Notification) -> bool:
        """Whether a listener that re-reads learns nothing new from it."""
        if self._queue and isinstance(self._queue[-1], Resync):
            return True
        last = self._last.get(_subject(notification))
        if isinstance(last, Created) and isinstance(notification, Modified):
            return True
        return last == notification

    def _enqueue(self, notification: Notification) -> None:
        self._queue.append(notification)
        self._last[_subject(notification)] = notification
        if self._delivery is None:
            self._delivery = asyncio.get_running_loop().create_task(self._deliver())

    def _forget_queue(self) -> None:
        self._queue.clear()
        self._last.clear()

    async def _deliver(self) -> None:
        try:
            while self._queue:
                notification = self._queue.popleft()
                subject = _subject(notification)
                if self._last.get(subject) is notification:
                    del self._last[subject]
                await self._call(notification)
        finally:
            self._delivery = None

    async def _call(self, notification: Notification) -> None:
        try:
            result = self._listener(notification)
            if result is not None:
                await result
        except Exception:
            log.exception("watch listener failed prefix=%s on=%r", self.prefix, notification)

    def __repr__(self) -> str:
        kind = "recursive" if self.recursive else "exact"
        return f"<PathWatch {self.prefix} {kind} pending={len(self._queue)}>"


def _subject(notification: Notification) -> tuple[bool, str]:
    # A path as a record and the same path as a parent are two subjects, each in its own order.
    return isinstance(notification, ChildrenChanged), notification.path


class Watches:
    """The watches of one session, found by path in as many steps as the path is deep."""

    def __init__(self, *, max_pending: int = MAX_PENDING) -> None:
        self.max_pending = max_pending
        # Dicts as ordered sets: listeners are called in the order in which they came.
        self._exact: dict[str, dict[PathWatch, None]] = {}
        self._recursive: dict[str, dict[PathWatch, None]] = {}
        self._closed = False

    def add(self, prefix: str, listener: Listener, *, recursive: bool) -> PathWatch:
        check_path(prefix)
        if self._closed:
            raise Closed(f"the session is closed; nothing can be heard of {prefix}")
        watch = PathWatch(self, prefix, listener, recursive=recursive)
        self._table(watch).setdefault(prefix, {})[watch] = None
        return watch

    def remove(self, watch: PathWatch) -> None:
        table = self._table(watch)
        if (same_prefix := table.get(watch.prefix)) is not None:
            same_prefix.pop(watch, None)
            if not same_prefix:
                del table[watch.prefix]

    def publish(self, notifications: Iterable[Notification]) -> None:
        for notification in notifications:
            for watch in self._interested(notification.path):
                watch.offer(notification)

    def resync(self) -> None:
        """After a gap: everybody reads again."""
        for watch in self._all():
            watch.offer(Resync(ROOT))

    def close(self) -> None:
        self._closed = True
        for watch in self._all():
            watch.close()

    def __len__(self) -> int:
        return len(self._all())

    def _table(self, watch: PathWatch) -> dict[str, dict[PathWatch, None]]:
        return self._recursive if watch.recursive else self._exact

    def _interested(self, path: str) -> list[PathWatch]:
        found = list(self._exact.get(path, ()))
        for prefix in (path, *ancestors_of(path)):
            found.extend(self._recursive.get(prefix, ()))
        return found

    def _all(self) -> list[PathWatch]:
        tables = (self._exact, self._recursive)
        return [watch for table in tables for same in table.values() for watch in same]


class Listening(Generic[T]):
    """One member of an audience; close it to hear no more."""

    def __init__(self, audience: Audience[T], listener: Callable[[T], None]) -> None:
        self.listener = listener
        self._audience = audience

    def close(self) -> None:
        self._audience.remove(self)


class Audience(Generic[T]):
    """Listeners who must know at once: called on the spot, in the order in which they came.

    For rare events of which none may wait or be merged: the fate of a session, a change of leader.
    """

    def __init__(self) -> None:
        self._members: dict[Listening[T], None] = {}

    def add(self, listener: Callable[[T], None]) -> Listening[T]:
        member = Listening(self, listener)
        self._members[member] = None
        return member

    def remove(self, member: Listening[T]) -> None:
        self._members.pop(member, None)

    def tell(self, news: T) -> None:
        for member in list(self._members):
            if member in self._members:  # an earlier listener may have closed it
                self._call(member, news)

    def _call(self, member: Listening[T], news: T) -> None:
        try:
            member.listener(news)
        except Exception:
            log.exception("listener failed on=%r", news)
