"""A session with an engine that keeps its whole tree in this process (memory, sqlite).

Reads are answered from the tree, writes go to the engine, and the session has its own watches:
what one session misses while it is cut off is no business of another.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import Protocol

from anabranch import errors
from anabranch.metadata.store import (
    ConnectionLost,
    Listener,
    Notification,
    Reconnected,
    SessionEvent,
    SessionListener,
    SessionLost,
    SessionReestablished,
    Stat,
    Watch,
    check_path,
    check_put,
    check_record_path,
    child_path,
)
from anabranch.metadata.tree import (
    Barrier,
    Delete,
    DeleteRecursive,
    EndSession,
    Node,
    Operation,
    Put,
    Tree,
    Written,
)
from anabranch.metadata.watches import Audience, Watches

log = logging.getLogger(__name__)


class TreeEngine(Protocol):
    @property
    def tree(self) -> Tree: ...

    async def submit(self, operation: Operation) -> Written | None:
        """Carry it out; return, or raise its error, once that is durable and can be read."""
        ...

    async def leave(self, session: TreeSession) -> None:
        """The session is over, its ephemerals are gone."""
        ...


class State(Enum):
    CONNECTED = "connected"
    CUT_OFF = "cut off"
    LOST = "lost"
    CLOSED = "closed"


class TreeSession:
    """A MetadataStore. The engine moves it between states; everything else is the contract."""

    def __init__(self, engine: TreeEngine, session: int) -> None:
        self.session = session
        self.state = State.CONNECTED
        self._reason = ""
        self._engine = engine
        self._watches = Watches()
        self._listeners: Audience[SessionEvent] = Audience()

    async def get(self, path: str) -> tuple[bytes, Stat] | None:
        check_path(path)
        self._check_usable()
        node = self._engine.tree.get(path)
        return None if node is None else (node.value, self._stat(path, node))

    async def put(
        self,
        path: str,
        value: bytes,
        expected: int | None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Stat:
        check_put(path, value, expected, sequential=sequential)
        owner = self.session if ephemeral else None
        written = await self._submit(Put(path, bytes(value), expected, owner, sequential))
        assert written is not None
        return self._stat(written.path, written.node)

    async def delete(self, path: str, expected: int | None = None) -> None:
        check_record_path(path)
        await self._submit(Delete(path, expected))

    async def delete_recursive(self, path: str) -> None:
        check_path(path)
        await self._submit(DeleteRecursive(path))

    async def exists(self, path: str) -> bool:
        check_path(path)
        self._check_usable()
        return self._engine.tree.get(path) is not None

    async def children(self, path: str) -> list[str]:
        check_path(path)
        self._check_usable()
        return self._engine.tree.children(path)

    async def scan(self, path: str) -> AsyncIterator[tuple[bytes, Stat]]:
        for name in await self.children(path):
            found = await self.get(child_path(path, name))
            if found is not None:
                yield found

    async def sync(self, path: str) -> None:
        """There is one tree, and finished writes are in it; what is left are abandoned ones."""
        check_path(path)
        await self._submit(Barrier())

    def watch(self, prefix: str, listener: Listener, *, recursive: bool = True) -> Watch:
        self._check_open()
        return self._watches.add(prefix, listener, recursive=recursive)

    def on_session(self, listener: SessionListener) -> Watch:
        self._check_open()
        return self._listeners.add(listener)

    async def close(self) -> None:
        if self.state is State.CLOSED:
            return
        had_session = self.state in (State.CONNECTED, State.CUT_OFF)
        self.state = State.CLOSED
        self._watches.close()
        try:
            if had_session:
                await self._engine.submit(EndSession(self.session))
        finally:
            await self._engine.leave(self)

    # What the engine tells its sessions.

    def notify(self, notifications: Sequence[Notification]) -> None:
        """A change is in the tree. Nobody else's matter while we are cut off: Resync follows."""
        if self.state is State.CONNECTED:
            self._watches.publish(notifications)

    def resync(self) -> None:
        """More changed than can be told one by one."""
        self._watches.resync()

    def cut_off(self, reason: str) -> None:
        if self.state is State.CONNECTED:
            self.state, self._reason = State.CUT_OFF, reason
            self._listeners.tell(ConnectionLost())

    def lose(self, reason: str) -> None:
        if self.state in (State.CONNECTED, State.CUT_OFF):
            log.warning("metadata session lost session=%d reason=%r", self.session, reason)
            self.state, self._reason = State.LOST, reason
            self._listeners.tell(SessionLost(reason))

    def resume(self) -> None:
        """In reach again before the session ended."""
        if self.state is State.CUT_OFF:
            self.state = State.CONNECTED
            self._watches.resync()
            self._listeners.tell(Reconnected())

    def begin_anew(self, session: int) -> None:
        """A new session after the old one was lost."""
        assert self.state is State.LOST
        self.session = session
        self.state = State.CONNECTED
        self._watches.resync()
        self._listeners.tell(SessionReestablished())

    async def _submit(self, operation: Operation) -> Written | None:
        self._check_usable()
        return await self._engine.submit(operation)

    def _check_usable(self) -> None:
        self._check_open()
        if self.state is State.CUT_OFF:
            raise errors.Unavailable(f"metadata store out of reach: {self._reason}")
        if self.state is State.LOST:
            raise errors.SessionLost(f"metadata session {self.session} lost: {self._reason}")

    def _check_open(self) -> None:
        if self.state is State.CLOSED:
            raise errors.Closed(f"metadata session {self.session} was closed by its owner")

    def _stat(self, path: str, node: Node) -> Stat:
        return Stat(
            path=path,
            version=node.version,
            created_ms=node.created_ms,
            modified_ms=node.modified_ms,
            ephemeral=node.owner is not None,
            created_by_self=node.owner == self.session,
            first_version=node.version == node.first_version,
        )

    def __repr__(self) -> str:
        return f"<TreeSession {self.session} {self.state.value} watches={len(self._watches)}>"
