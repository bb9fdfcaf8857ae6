"""A metadata store across the network: the memory engine as the server, sessions on machines.

The tree stands outside all machines. A `StoreLink` belongs to one process: its client session
lives in that process (a paused one hears nothing, a dead one asks nothing), its server session in
the tree. In between, requests and answers take time, and a cut loses either of them, so a write
may have happened though it failed. The client sends heartbeats; the server ends a session that it
has not heard of for SESSION_SECONDS, and the client, if it runs at all, gives up earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from anabranch.errors import SessionLost, Unavailable
from anabranch.metadata.memory import MemoryTree
from anabranch.metadata.store import Notification
from anabranch.metadata.tree import Operation, Tree, Written
from anabranch.metadata.tree_session import State, TreeSession
from tests.simulation.process import PROCESS

SESSION_SECONDS = 6.0
GIVE_UP_SECONDS = SESSION_SECONDS * 5 / 6
HEARTBEAT_SECONDS = 1.0
LATENCY_SECONDS = 0.005


class StoreLink:
    """Make it inside the process that shall own it, then use `client`."""

    def __init__(self, server_tree: MemoryTree, random: Random) -> None:
        process = PROCESS.get()
        assert process is not None, "a session needs a process to live in"
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._server_tree = server_tree
        self._random = random
        self._server = self._open_server_session()
        self._last_due = 0.0
        self._last_contact = self._loop.time()  # as the client knows it
        self.last_heard = self._loop.time()  # as the server knows it
        self.is_cut = False
        self.client = TreeSession(self, self._server.session)
        self._heartbeat = self._loop.create_task(self._run_heartbeat())

    @property
    def tree(self) -> Tree:
        return self._server_tree.tree

    async def submit(self, operation: Operation) -> Written | None:
        await self._travel("request")
        if self._server.state is not State.CONNECTED:
            self.client.lose("expired")
            raise SessionLost(f"session {self._server.session} expired")
        written = await self._server_tree.submit(operation)
        await self._travel("answer")
        return written

    async def leave(self, session: TreeSession) -> None:
        self._heartbeat.cancel()
        await self._server_tree.leave(self._server)

    def cut(self) -> None:
        self.is_cut = True

    def mend(self) -> None:
        self.is_cut = False

    def expire_if_silent(self) -> None:
        """The server's timer."""
        if self._loop.time() - self.last_heard > SESSION_SECONDS:
            self._server_tree.expire(self._server)

    def _open_server_session(self) -> TreeSession:
        server = self._server_tree.open_session()
        server.notify = self._forward  # type: ignore[method-assign]
        return server

    async def _travel(self, what: str) -> None:
        self._process.check()
        await asyncio.sleep(self._latency())
        self._process.check()
        if self.is_cut:
            raise Unavailable(f"{what} lost on the way")
        self._last_contact = self.last_heard = self._loop.time()

    def _latency(self) -> float:
        return LATENCY_SECONDS * self._random.uniform(0.1, 2.0)

    def _forward(self, notifications: Sequence[Notification]) -> None:
        """One after another, and not at all while cut: the client will be told to read again."""
        due = self._loop.time() + self._latency()
        self._last_due = max(due, self._last_due + 1e-6)
        self._loop.call_at(
            self._last_due, self._deliver, notifications, context=self._process.context
        )

    def _deliver(self, notifications: Sequence[Notification]) -> None:
        if self._process.alive and not self.is_cut:
            self.client.notify(notifications)

    async def _run_heartbeat(self) -> None:
        while True:
            self._beat()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def _beat(self) -> None:
        now = self._loop.time()
        if self.is_cut:
            self.client.cut_off("cut")
            if now - self._last_contact > GIVE_UP_SECONDS:
                self.client.lose("no contact for too long")
            return
        if self._server.state is not State.CONNECTED:
            self.client.lose("expired")
        self._last_contact = self.last_heard = now
        if self.client.state is State.CUT_OFF:
            self.client.resume()
        elif self.client.state is State.LOST:
            self._server_tree.expire(self._server)
            self._server = self._open_server_session()
            self.client.begin_anew(self._server.session)


async def run_expiry(links: Callable[[], Sequence[StoreLink]]) -> None:
    """The server's housekeeping; it never returns."""
    while True:
        await asyncio.sleep(0.5)
        for link in links():
            link.expire_if_silent()
