"""`sqlite:/path/file.db?shared=1`: one file, several processes of one machine.

Every process keeps a replica of the tree, for its reads and watches, and brings it up to date in
each exchange (sqlite_events.py): with every group it writes, with every `sync`, and at least every
POLL_SECONDS. So a process reads its own writes at once, and others' a moment later; `sync` makes
sure of all.

A session is a lock on a file beside the database. The kernel frees it when the process dies, and
only then: a process that is merely stopped keeps it, so there is no false expiry and no clock.
The others look every REAP_SECONDS, and whoever can take a session's lock ends that session.

The file must not lie on a network file system, and a process that is stopped inside a transaction
holds up all writers until it goes on or dies. Failures are handled as in sqlite.py, but for one: a
sync that failed in one process ends only that one's session, and others may commit behind pages
that are in the cache alone. Disks that fail and lose power then are a reason for a file of one's
own, or for an external store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from anabranch.errors import Full, Refused, SessionLost, Unavailable
from anabranch.metadata.group_commit import GroupCommit
from anabranch.metadata.sqlite_events import (
    Exchange,
    Peer,
    Snapshot,
    end_session,
    exchange,
    join,
    peers,
    replay,
)
from anabranch.metadata.tree import Barrier, Operation, Outcome, Written
from anabranch.metadata.tree_session import TreeSession
from anabranch.runtime.world import Database, DirectoryLock, SharingDisk, World

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.02
REAP_SECONDS: Final = 0.2
# Two that open at the same moment meet at the lock for openers; it is held for milliseconds.
_OPEN_ATTEMPTS: Final = 50


class SharedSqlite:
    """One process's end of a shared file, with one session."""

    def __init__(
        self,
        path: str,
        world: World,
        database: Database,
        lock: DirectoryLock,
        token: str,
        session: int,
        snapshot: Snapshot,
    ) -> None:
        self.tree = snapshot.tree
        self.session = TreeSession(self, session)
        self._path = path
        self._world = world
        self._database = database
        self._lock = lock
        self._token = token
        self._id = session
        self._seen = snapshot.seen
        self._writes = GroupCommit(self._write_group, self.session.lose)
        self._follower = asyncio.get_running_loop().create_task(self._run_following())

    @classmethod
    async def open(cls, path: str, world: World) -> SharedSqlite:
        if not isinstance(world.disk, SharingDisk):
            raise Refused(f"{path}: this disk cannot share a database between processes")
        directory = path.rpartition("/")[0]
        if directory and not await world.disk.exists(directory):
            await world.disk.make_directory(directory)
        token = f"{world.random.getrandbits(64):016x}"
        # Before the row that names it is there for others to see: they would take us for dead.
        lock = world.disk.lock(_session_file(path, token))
        try:
            opening = await _lock_for_opening(path, world)
            try:
                database = await world.disk.open_shared_database(path)
                session, snapshot = await _join(path, token, database)
            finally:
                opening.release()
        except BaseException:
            lock.release()
            raise
        log.info("metadata joined path=%s session=%d records=%d", path, session, len(snapshot.tree))
        end = cls(path, world, database, lock, token, session, snapshot)
        # Whoever starts after a crash of them all must not find what the dead held.
        await end.reap()
        await end.submit(Barrier())
        return end

    async def submit(self, operation: Operation) -> Written | None:
        return await self._writes.submit(operation)

    async def leave(self, session: TreeSession) -> None:
        self._follower.cancel()
        await asyncio.gather(self._follower, return_exceptions=True)
        await self._writes.drain()
        try:
            if not self._writes.failure:
                await self._end(self._id)
            await self._database.close()
        finally:
            self._lock.release()
        with contextlib.suppress(FileNotFoundError):
            await self._world.disk.remove(_session_file(self._path, self._token))

    async def _write_group(self, operations: Sequence[Operation]) -> Sequence[Outcome]:
        now_ms = self._world.clock.wall_ms()
        work = partial(exchange, self._path, self._id, self._seen, now_ms, operations)
        result = await self._database.transact(work)
        if not result.is_alive:
            raise SessionLost("another process ended this session; was its lock file removed?")
        self._follow(result)
        return result.outcomes

    def _follow(self, result: Exchange) -> None:
        news = result.news
        self._seen = news.seen
        if isinstance(news, Snapshot):
            log.info("metadata read anew, too far behind path=%s", self._path)
            self.tree = news.tree
            self.session.resync()
        elif news.states:
            changes = replay(self.tree, news.states)
            self.session.notify(self.tree.take_over(changes, news.last_version))

    async def _run_following(self) -> None:
        next_reaping = 0.0
        while not self._writes.failure:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.submit(Barrier())
                if self._world.clock.monotonic() >= next_reaping:
                    await self.reap()
                    next_reaping = self._world.clock.monotonic() + REAP_SECONDS
            except (Full, Unavailable) as error:
                # No room, or another's transaction takes long: that may pass. If it was the end
                # of our session, the loop ends with it.
                log.info("metadata not followed for now path=%s reason=%s", self._path, error)
            except Exception as error:
                # Whoever stops following must not go on answering from what it knew.
                self._writes.fail(error)

    async def reap(self) -> None:
        """End the sessions whose processes are dead."""
        for peer in await self._database.transact(partial(peers, self._id)):
            await self._end_if_dead(peer)

    async def _end_if_dead(self, peer: Peer) -> None:
        file = _session_file(self._path, peer.token)
        try:
            lock = self._world.disk.lock(file)
        except Unavailable:
            return
        try:
            log.info("metadata session of a dead process ended session=%d", peer.session)
            await self._end(peer.session)
            with contextlib.suppress(FileNotFoundError):
                await self._world.disk.remove(file)
        finally:
            lock.release()

    async def _end(self, session: int) -> None:
        now_ms = self._world.clock.wall_ms()
        await self._database.transact(partial(end_session, self._path, session, now_ms))


def _session_file(path: str, token: str) -> str:
    return f"{path}.session-{token}"


async def _join(path: str, token: str, database: Database) -> tuple[int, Snapshot]:
    try:
        return await database.transact(partial(join, path, token))
    except BaseException:
        await database.close()
        raise


async def _lock_for_opening(path: str, world: World) -> DirectoryLock:
    """The lock of a process that has the file to itself: if one does, it never lets go."""
    for _ in range(_OPEN_ATTEMPTS - 1):
        with contextlib.suppress(Unavailable):
            return world.disk.lock(f"{path}.lock")
        await asyncio.sleep(POLL_SECONDS)
    return world.disk.lock(f"{path}.lock")
