"""Who leads, and under which number.

A candidate acquires the lock at `path`, then raises the persistent number at `{path}:epoch` by a
compare-and-set, and leads only with the number it wrote. Numbers only grow, and no two terms ever
share one, so whatever a leader changes can be guarded by it: a write that carries a smaller one
is refused, and a leader that was paused finds itself fenced, not merely impolite. A candidate
that could not write its number does nothing.

    Leaderless ──lock held by another──▶ Following(value) ──lock gone──▶ Leaderless
        │                                                                    ▲
        └──lock acquired, number written──▶ Leading(epoch) ──session or record lost──┘
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from anabranch.errors import BadVersion, Corrupt, Stale, Unavailable
from anabranch.metadata.locks import HeldBy, Lock, LockState, retry_delay
from anabranch.metadata.records import epoch_of
from anabranch.metadata.store import NEW, MetadataStore, Notification, Watch
from anabranch.metadata.watches import Audience
from anabranch.runtime.world import World

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Leading:
    epoch: int


@dataclass(frozen=True, slots=True)
class Following:
    leader: bytes  # the value that the leader campaigned with


@dataclass(frozen=True, slots=True)
class Leaderless:
    """Nobody leads, or we cannot tell."""


Role: TypeAlias = Leading | Following | Leaderless


class Election:
    """A candidate. `run` it in a task; cancel that and `resign` to leave in order."""

    def __init__(self, store: MetadataStore, path: str, value: bytes, world: World) -> None:
        self.path = path
        self.role: Role = Leaderless()
        self._store = store
        self._world = world
        self._audience: Audience[Role] = Audience()
        self._lock = Lock(store, path, value, world, self._lock_changed)

    def listen(self, listener: Callable[[Role], None]) -> Watch:
        """Called at once with the present role, then with every new one, on the loop."""
        watch = self._audience.add(listener)
        listener(self.role)
        return watch

    def require_epoch(self) -> int:
        """The number to act with. Stale if we do not lead."""
        match self.role:
            case Leading(epoch):
                return epoch
            case Following(leader):
                raise Stale(f"not the leader of {self.path}; that is {leader!r}")
            case Leaderless():
                raise Stale(f"{self.path} has no leader yet")

    async def run(self) -> NoReturn:
        while True:
            await self._lock.acquire()
            epoch = await self._claim_epoch()
            if epoch is not None:
                log.info("elected path=%s epoch=%d", self.path, epoch)
                self._become(Leading(epoch))
                await self._lock.lost()
                log.info("no longer leader path=%s epoch=%d", self.path, epoch)

    async def resign(self) -> None:
        """Not the leader from this moment. After `run` was cancelled, for good."""
        self._become(Leaderless())
        self._lock.close()
        await self._lock.release()

    async def _claim_epoch(self) -> int | None:
        """A number nobody else has or had. None if the lock was lost meanwhile."""
        failures = 0
        while self._lock.is_held:
            try:
                epoch = await next_epoch(self._store, self.path)
                # The lock may have been taken while we wrote: then this number is just unused.
                await self._lock.confirm()
            except Unavailable as error:
                log.info("epoch not written path=%s reason=%s", self.path, error)
                await asyncio.sleep(retry_delay(failures, self._world))
                failures += 1
            else:
                return epoch if self._lock.is_held else None
        return None

    def _lock_changed(self, state: LockState) -> None:
        # Holding the lock is not leading yet: the number must be written first.
        self._become(Following(state.value) if isinstance(state, HeldBy) else Leaderless())

    def _become(self, role: Role) -> None:
        if role != self.role:
            self.role = role
            self._audience.tell(role)

    def __repr__(self) -> str:
        return f"<Election {self.path} {self.role}>"


async def next_epoch(store: MetadataStore, path: str) -> int:
    """Raise the number beside `path` by one, and return it. Ours alone once this returns."""
    while True:
        found = await store.get(epoch_of(path))
        epoch, version = (0, NEW) if found is None else (_number(path, found[0]), found[1].version)
        try:
            await store.put(epoch_of(path), str(epoch + 1).encode(), version)
        except BadVersion:
            await store.sync(epoch_of(path))
        else:
            return epoch + 1


def _number(path: str, text: bytes) -> int:
    if not text.isdigit():
        raise Corrupt(f"{epoch_of(path)} holds {text[:40]!r}, which is no number")
    return int(text)


class LeaderWatch:
    """Who leads, for those who do not stand. `start` it; it follows until closed."""

    def __init__(self, store: MetadataStore, path: str) -> None:
        self.path = path
        self.leader: bytes | None = None
        self._store = store
        self._audience: Audience[bytes | None] = Audience()
        self._watch: Watch | None = None
        self._looking = asyncio.Lock()  # of two looks, the one that began last must have the word

    def listen(self, listener: Callable[[bytes | None], None]) -> Watch:
        """Called at once with the leader's value, or None, then whenever that changes."""
        watch = self._audience.add(listener)
        listener(self.leader)
        return watch

    async def start(self) -> None:
        """Unavailable if the store is out of reach; start again then."""
        if self._watch is None:
            # Before the read: a change between the two would go unseen.
            self._watch = self._store.watch(self.path, self._heard, recursive=False)
        await self._look()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    async def _heard(self, notification: Notification) -> None:
        try:
            await self._look()
        except Unavailable as error:
            # Out of reach means a Resync on return, so nothing is missed for good.
            log.info("leader unknown for now path=%s reason=%s", self.path, error)

    async def _look(self) -> None:
        async with self._looking:
            found = await self._store.get(self.path)
            leader = None if found is None else found[0]
            if leader != self.leader:
                self.leader = leader
                self._audience.tell(leader)
