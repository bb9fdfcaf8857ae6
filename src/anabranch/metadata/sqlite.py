"""`sqlite:`, the embedded durable engine: one file, one process, no server.

The whole tree is in memory and answers every read; SQLite makes it last. Writes that wait while a
transaction is under way become the next one, so a thousand of them cost one sync. Each group is
decided on a draft, in the order it was asked for, written in one transaction, and only then put
into the tree, announced and acknowledged: nobody reads what a crash could take back.

A lock file beside the database (`.lock`) keeps a second process out. No session outlives the
process that holds it, so every ephemeral record found at the start is dead and is deleted.

Failures: no room on disk rolls the group back and raises `Full`; later writes may succeed. Any
other failure of the database leaves it unknown whether the group is on disk. The engine then ends
its sessions and refuses all further calls, reads too: a process that can no longer write must not
go on leading, and what it would read may not be what a restart will find.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Final

from anabranch.errors import AnabranchError, Full, Unavailable
from anabranch.metadata.sqlite_file import load, save
from anabranch.metadata.tree import Draft, EndSession, Operation, Outcome, Put, Tree, Written
from anabranch.metadata.tree_session import TreeSession
from anabranch.runtime.world import Clock, Database, DirectoryLock, Disk, World

log = logging.getLogger(__name__)

# A transaction is limited so that the first of a large crowd need not wait for the last.
MAX_GROUP: Final = 4_096
# What may wait for the disk. Values are at most 1 MB, so the bytes are the bound that matters.
MAX_WAITING: Final = 65_536
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Waiting:
    operation: Operation
    done: asyncio.Future[Written | None]

    @property
    def value_bytes(self) -> int:
        return len(self.operation.value) if isinstance(self.operation, Put) else 0


class SqliteTree:
    """The engine: open it, then take one session, or several for several brokers in a process."""

    def __init__(self, database: Database, lock: DirectoryLock, clock: Clock, tree: Tree) -> None:
        self.tree = tree
        self._database = database
        self._lock = lock
        self._clock = clock
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._failure = ""  # why the engine stopped, once it has
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
        self._check_working()
        self._last_session += 1
        session = TreeSession(self, self._last_session)
        self._sessions[session] = None
        return session

    async def submit(self, operation: Operation) -> Written | None:
        self._check_working()
        waiting = Waiting(operation, asyncio.get_running_loop().create_future())
        self._check_room_for(waiting)
        self._waiting.append(waiting)
        self._waiting_bytes += waiting.value_bytes
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_groups())
        return await waiting.done

    async def leave(self, session: TreeSession) -> None:
        self._sessions.pop(session, None)
        if not self._sessions:
            await self.close()

    async def close(self) -> None:
        """After the last session; what it left unfinished is finished first."""
        if self._writer is not None:
            await self._writer
        try:
            await self._database.close()
        finally:
            self._lock.release()

    def _check_working(self) -> None:
        if self._failure:
            raise Unavailable(self._failure)

    def _check_room_for(self, waiting: Waiting) -> None:
        size = self._waiting_bytes + waiting.value_bytes
        # A session that ends frees room, and its owner could do nothing about a refusal.
        if isinstance(waiting.operation, EndSession):
            return
        if len(self._waiting) >= MAX_WAITING or size > MAX_WAITING_BYTES:
            raise Unavailable(
                f"{len(self._waiting)} metadata writes of {self._waiting_bytes} bytes already "
                "wait for the disk"
            )

    async def _write_groups(self) -> None:
        try:
            while self._waiting:
                await self._write_group(self._take_group())
        finally:
            self._writer = None

    def _take_group(self) -> list[Waiting]:
        group = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_GROUP))]
        self._waiting_bytes -= sum(waiting.value_bytes for waiting in group)
        return group

    async def _write_group(self, group: list[Waiting]) -> None:
        try:
            draft = Draft(self.tree, self._clock.wall_ms())
            outcomes = [draft.apply(waiting.operation) for waiting in group]
            if draft.changes:
                await self._database.transact(partial(save, draft.final(), draft.last_version))
            self._publish(draft)
            _settle(group, outcomes)
        except Full as error:
            log.warning("metadata writes refused count=%d reason=%s", len(group), error)
            _settle(group, [Full(f"metadata not written: {error}") for _ in group])
        except Exception as error:  # also a mistake of ours: nobody may be left waiting
            self._fail(group, error)

    def _publish(self, draft: Draft) -> None:
        notifications = self.tree.commit(draft)
        for session in list(self._sessions):
            session.notify(notifications)

    def _fail(self, group: list[Waiting], error: Exception) -> None:
        reason = f"metadata database failed, restart to recover: {error!r}"
        log.error("%s", reason)
        self._failure = reason
        group = [*group, *self._waiting]
        self._waiting.clear()
        self._waiting_bytes = 0
        for session in list(self._sessions):
            session.lose(reason)
        _settle(group, [Unavailable(reason) for _ in group])


def _settle(group: list[Waiting], outcomes: list[Outcome]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if waiting.done.done():  # its caller was cancelled
            continue
        if isinstance(outcome, AnabranchError):
            waiting.done.set_exception(outcome)
        else:
            waiting.done.set_result(outcome)


async def _open_database(path: str, disk: Disk) -> tuple[Database, Tree]:
    try:
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


def _directory_of(path: str) -> str:
    head, slash, _ = path.rpartition("/")
    return head or slash
