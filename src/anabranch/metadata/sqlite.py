"""`sqlite:`, the embedded durable engine: one file, one process, no server.

The whole tree is in memory and answers every read; SQLite makes it last. Writes are committed in
groups (group_commit.py), so a thousand of them cost one sync. Each group is decided on a draft, in
the order it was asked for, written in one transaction, and only then put into the tree, announced
and acknowledged: nobody reads what a crash could take back.

A lock file beside the database (`.lock`) keeps a second process out. No session outlives the
process that holds it, so every ephemeral record found at the start is dead and is deleted.

Failures: no room on disk rolls the group back and raises `Full`; later writes may succeed. Any
other failure of the database leaves it unknown whether the group is on disk. The engine then ends
its sessions and refuses all further calls, reads too: a process that can no longer write must not
go on leading, and what it would read may not be what a restart will find.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from anabranch.errors import AnabranchError, Unavailable
from anabranch.metadata.group_commit import GroupCommit
from anabranch.metadata.sqlite_file import load, save
from anabranch.metadata.tree import Draft, Operation, Outcome, Tree, Written
from anabranch.metadata.tree_session import TreeSession
from anabranch.runtime.world import Clock, Database, DirectoryLock, Disk, World

log = logging.getLogger(__name__)


class SqliteTree:
    """The engine: open it, then take one session, or several for several brokers in a process."""

    def __init__(self, database: Database, lock: DirectoryLock, clock: Clock, tree: Tree) -> None:
        self.tree = tree
        self._database = database
        self._lock = lock
        self._clock = clock
        self._writes = GroupCommit(self._write_group, self._fail)
        self._last_session = 0
        self._sessions: dict[TreeSession, None] = {}

    @classmethod
    async def open(cls, path: str, world: World) -> SqliteTree:
        """Unavailable if another process has the file, Refused or Corrupt if it is not for us."""
        directory = _directory_of(path)
        if directory and not await world.disk.exists(directory):
            await world.disk.make_directory(directory)
        lock = world.disk.lock(f"{path}.lock")
        try:
            database, tree = await _open_database(path, world.disk)
        except BaseException:
            lock.release()
            raise
        log.info(
            "metadata opened path=%s records=%d version=%d", path, len(tree), tree.last_version
        )
        return cls(database, lock, world.clock, tree)

    def open_session(self) -> TreeSession:
        self._writes.check_working()
        self._last_session += 1
        session = TreeSession(self, self._last_session)
        self._sessions[session] = None
        return session

    async def submit(self, operation: Operation) -> Written | None:
        return await self._writes.submit(operation)

    async def leave(self, session: TreeSession) -> None:
        self._sessions.pop(session, None)
        if not self._sessions:
            await self.close()

    async def close(self) -> None:
        """After the last session; what it left unfinished is finished first."""
        await self._writes.drain()
        try:
            await self._database.close()
        finally:
            self._lock.release()

    async def _write_group(self, operations: Sequence[Operation]) -> list[Outcome]:
        draft = Draft(self.tree, self._clock.wall_ms())
        outcomes = [draft.apply(operation) for operation in operations]
        if draft.changes:
            await self._database.transact(partial(save, draft.final(), draft.last_version))
        notifications = self.tree.commit(draft)
        for session in list(self._sessions):
            session.notify(notifications)
        return outcomes

    def _fail(self, reason: str) -> None:
        for session in list(self._sessions):
            session.lose(reason)


async def _open_database(path: str, disk: Disk) -> tuple[Database, Tree]:
    try:
        await _secure_log(f"{path}-wal", disk)
        database = await disk.open_database(path)
        try:
            tree = await database.transact(partial(load, path))
            # SQLite syncs what is in the file, not that there is one.
            await disk.sync_directory(_directory_of(path))
        except BaseException:
            await database.close()
            raise
    except AnabranchError:
        raise
    except Exception as error:
        raise Unavailable(f"cannot open metadata database {path}: {error!r}") from error
    return database, tree


async def _secure_log(path: str, disk: Disk) -> None:
    """Put SQLite's log on disk as it is read now, before SQLite takes it for durable.

    The last process may have been killed before its sync, or its sync failed. Then Linux counts
    pages as clean that are in its cache only, and another sync would succeed without them. So the
    same bytes are written once more; that makes the sync that follows a true one.
    """
    if not await disk.exists(path):
        return
    file = await disk.open(path)
    try:
        await file.write(0, [await file.read(0, await file.size())], sync=True)
    finally:
        await file.close()


def _directory_of(path: str) -> str:
    head, slash, _ = path.rpartition("/")
    return head or slash
