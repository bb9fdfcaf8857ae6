"""`memory:`, the engine without a disk: for tests, trials and the simulated world.

Several sessions share one `MemoryTree`, as several brokers share a store. The tree can cut a
session off, end it and let it return, in the order real stores do it: the server may end a
session while its client is cut off and has not heard of it, and a client may give up a session
that the server still keeps.
"""

from __future__ import annotations

import asyncio

from anabranch.errors import AnabranchError
from anabranch.metadata.tree import Draft, EndSession, Operation, Tree, Written
from anabranch.metadata.tree_session import State, TreeSession
from anabranch.runtime.world import Clock


class MemoryTree:
    """The server's side: one tree, its sessions, and the faults that tests ask for."""

    def __init__(self, clock: Clock) -> None:
        self.tree = Tree()
        self._clock = clock
        self._last_session = 0
        self._clients: dict[TreeSession, None] = {}
        self._alive: set[int] = set()

    def open_session(self) -> TreeSession:
        client = TreeSession(self, self._new_session())
        self._clients[client] = None
        return client

    async def submit(self, operation: Operation) -> Written | None:
        written = self._carry_out(operation)
        # Every other engine lets others run before it answers; code tried here must bear that too.
        await asyncio.sleep(0)
        return written

    async def leave(self, client: TreeSession) -> None:
        self._clients.pop(client, None)
        self._alive.discard(client.session)

    def disconnect(self, client: TreeSession) -> None:
        """The client hears nothing and gets nothing through; its session lives on."""
        client.cut_off("disconnected")

    def give_up(self, client: TreeSession) -> None:
        """The client has waited too long and counts its session as lost, ahead of the server."""
        client.lose("no contact for too long")

    def expire(self, client: TreeSession) -> None:
        """The server ends the session. A client in reach learns it now, another on its return."""
        self._end(client.session)
        if client.state is State.CONNECTED:
            client.lose("expired")

    def reconnect(self, client: TreeSession) -> None:
        """In reach again: the same session if both sides still hold to it, else a new one."""
        if client.state is State.CUT_OFF and client.session in self._alive:
            client.resume()
            return
        client.lose("expired while out of reach")
        if client.state is State.LOST:
            self._end(client.session)
            client.begin_anew(self._new_session())

    def _new_session(self) -> int:
        self._last_session += 1
        self._alive.add(self._last_session)
        return self._last_session

    def _end(self, session: int) -> None:
        if session in self._alive:
            self._alive.discard(session)
            self._carry_out(EndSession(session))

    def _carry_out(self, operation: Operation) -> Written | None:
        draft = Draft(self.tree, self._clock.wall_ms())
        outcome = draft.apply(operation)
        if isinstance(outcome, AnabranchError):
            raise outcome
        notifications = self.tree.commit(draft)
        for client in list(self._clients):
            client.notify(notifications)
        return outcome


class MemoryTrees:
    """Trees by name, for as long as whoever owns this object keeps it."""

    def __init__(self) -> None:
        self._trees: dict[str, MemoryTree] = {}

    def named(self, name: str, clock: Clock) -> MemoryTree:
        """The tree of that name; `local` is always a new one."""
        if name == "local":
            return MemoryTree(clock)
        return self._trees.setdefault(name, MemoryTree(clock))
