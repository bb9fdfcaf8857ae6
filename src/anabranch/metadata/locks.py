"""One holder at a time, as far as a store can tell: an ephemeral record is the lock.

A lock says who *should* act. It cannot stop a holder that was paused and does not know yet that
its session is over; fencing does that (election.py, and the epochs of ledgers). What a lock does
promise its holder is to give up early: `SessionLost` takes it away on the spot, and it is never
assumed to be held again, only acquired anew.

The record's value names its holder, so it must be this process's own: a record with our value but
of another session is taken for our earlier life, and removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from anabranch.errors import BadVersion, NotFound, Unavailable
from anabranch.metadata.store import (
    NEW,
    ConnectionLost,
    MetadataStore,
    Notification,
    SessionEvent,
    SessionLost,
    Stat,
)
from anabranch.runtime.world import World

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS: Final = 0.05
LAST_RETRY_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Held:
    pass


@dataclass(frozen=True, slots=True)
class HeldBy:
    value: bytes


@dataclass(frozen=True, slots=True)
class Unheld:
    """By nobody, or by nobody we know of."""


LockState: TypeAlias = Held | HeldBy | Unheld


@dataclass(frozen=True, slots=True)
class Create:
    pass


@dataclass(frozen=True, slots=True)
class Keep:
    pass


@dataclass(frozen=True, slots=True)
class Rename:
    """Ours, under another value than it shall have."""

    version: int


@dataclass(frozen=True, slots=True)
class EndEarlierLife:
    version: int


@dataclass(frozen=True, slots=True)
class Wait:
    holder: bytes


Step: TypeAlias = Create | Keep | Rename | EndEarlierLife | Wait


def decide_step(found: tuple[bytes, Stat] | None, value: bytes) -> Step:
    """What a candidate does about the record that it finds at the lock's path."""
    if found is None:
        return Create()
    holder, stat = found
    if stat.created_by_self:
        return Keep() if holder == value else Rename(stat.version)
    return EndEarlierLife(stat.version) if holder == value else Wait(holder)


def retry_delay(attempt: int, world: World) -> float:
    """Doubling, bounded, and spread so that candidates do not come in step."""
    longest = min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(attempt, 30))
    return world.random.uniform(longest / 2, longest)


class Lock:
    """`acquire`, then await `lost` if it matters that others may delete the record; `release`."""

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        value: bytes,
        world: World,
        on_state: Callable[[LockState], None] = lambda state: None,
    ) -> None:
        self.path = path
        self.value = value
        self.state: LockState = Unheld()
        self._store = store
        self._world = world
        self._on_state = on_state
        self._news = asyncio.Event()
        # Counts lost sessions: an answer that was on its way when one ended is worth nothing.
        self._life = 0
        self._watches = (
            store.watch(path, self._heard, recursive=False),
            store.on_session(self._session_changed),
        )

    @property
    def is_held(self) -> bool:
        return isinstance(self.state, Held)

    async def acquire(self) -> None:
        """Return once it is ours; through lost connections and sessions, however long it takes."""
        failures = 0
        while not self.is_held:
            self._news.clear()
            try:
                if isinstance(await self._step(), Wait):
                    await self._news.wait()
                failures = 0
            except Unavailable as error:
                log.info("lock out of reach path=%s reason=%s", self.path, error)
                await self._pause(failures)
                failures += 1

    async def try_acquire(self) -> bool:
        """Without waiting for a holder. Unavailable if the store is out of reach."""
        while not self.is_held:
            if isinstance(await self._step(), Wait):
                return False
        return True

    async def lost(self) -> None:
        """Return once it is not ours any more: the session ended, or somebody took the record."""
        failures = 0
        while self.is_held:
            self._news.clear()
            try:
                await self.confirm()
                if self.is_held:
                    await self._news.wait()
                failures = 0
            except Unavailable:
                await self._pause(failures)  # the session's end will tell, if it comes to that
                failures += 1

    async def confirm(self) -> None:
        """Look once more, and give up if the record is not ours."""
        found = await self._store.get(self.path)
        if self.is_held and (found is None or not found[1].created_by_self):
            log.warning("lock taken away path=%s", self.path)
            self._become(Unheld() if found is None else HeldBy(found[0]))

    async def release(self) -> None:
        """Not ours from this moment; the record is removed if it was. Repeat it if it fails."""
        if self.is_held:
            self._become(Unheld())
        # An `acquire` that was cancelled may have left a put on its way.
        await self._store.sync(self.path)
        while (found := await self._store.get(self.path)) and found[1].created_by_self:
            with contextlib.suppress(BadVersion, NotFound):
                await self._store.delete(self.path, found[1].version)
                return
            await self._store.sync(self.path)

    def close(self) -> None:
        """Stop listening. The record stays until `release` or the end of the session."""
        for watch in self._watches:
            watch.close()

    async def _step(self) -> Step | None:
        """One look and what follows from it; None if somebody was faster: look again."""
        life = self._life
        step = decide_step(await self._store.get(self.path), self.value)
        try:
            await self._carry_out(step)
        except (BadVersion, NotFound):
            await self._store.sync(self.path)
            return None
        if isinstance(step, Wait):
            self._become(HeldBy(step.holder), life)
        elif not isinstance(step, EndEarlierLife):
            self._become(Held(), life)
        return step

    async def _carry_out(self, step: Step) -> None:
        match step:
            case Create():
                await self._store.put(self.path, self.value, NEW, ephemeral=True)
            case Rename(version):
                await self._store.put(self.path, self.value, version)
            case EndEarlierLife(version):
                await self._store.delete(self.path, version)
            case Keep() | Wait():
                pass

    def _become(self, state: LockState, life: int | None = None) -> None:
        if state != self.state and life in (None, self._life):
            self.state = state
            self._on_state(state)

    async def _pause(self, failures: int) -> None:
        """Until there is news, but not for long: nobody announces that a store is well again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(retry_delay(failures, self._world)):
                await self._news.wait()

    def _heard(self, notification: Notification) -> None:
        self._news.set()

    def _session_changed(self, event: SessionEvent) -> None:
        if isinstance(event, SessionLost):
            self._life += 1
            self._become(Unheld())
        if not isinstance(event, ConnectionLost):
            self._news.set()

    def __repr__(self) -> str:
        return f"<Lock {self.path} {self.state}>"
