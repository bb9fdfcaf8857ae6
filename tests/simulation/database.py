"""The real SQLite on the simulated disk: its file system calls end in platter.py.

Exclusive locking needs no shared memory, so a VFS of plain files is enough, as in the real world's
SystemDatabase. Every VFS call counts as a call of the disk, so a machine can die between any two
of them, inside a commit as well. What SQLite takes from outside besides files (randomness for the
log's salts, the time) comes from the simulation; its generator is global to the process and is
seeded anew when a simulation begins (`seed_sqlite`).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

import apsw

from anabranch.errors import Corrupt, Full, Unavailable
from anabranch.runtime.world import SqlConnection, SqlValue
from tests.simulation.disk import Lane, ProcessDisk
from tests.simulation.platter import Inode, parent_of

T = TypeVar("T")

_names = itertools.count()
_CREATE = apsw.SQLITE_OPEN_CREATE
# Linux promises no more for a plain file than that bytes next to a write stay as they are.
_CHARACTERISTICS = apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE
_SECTOR_BYTES = 4096


class Died(Exception):
    """The machine died inside this call of SQLite's."""


def seed_sqlite(random: Random) -> Callable[[], None]:
    """Make SQLite's random numbers repeatable; call the result when the simulation ends."""
    source = _Randomness(random)
    apsw.randomness(0)
    return source.unregister


class _Randomness(apsw.VFS):
    """The default file system for a while: SQLite seeds its generator from no other."""

    def __init__(self, random: Random) -> None:
        self._random = random
        super().__init__(f"randomness-{next(_names)}", base="", makedefault=True)

    def xRandomness(self, numbytes: int) -> bytes:  # noqa: N802 (SQLite's name)
        return self._random.randbytes(numbytes)


class SimulatedDatabase:
    def __init__(self, disk: ProcessDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._lane = Lane()
        self._vfs = _FileSystem(disk)
        self._is_busy = True  # until it is open: a machine may die in the middle of that, too
        self._connection: apsw.Connection | None = None
        disk.process.at_death.append(self._die)
        try:
            self._connection = apsw.Connection(f"/{path}", vfs=self._vfs.name)
            for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
                list(self._connection.execute(f"PRAGMA {pragma}"))
            self._is_busy = False
        except BaseException as error:
            self._vfs.is_dead = True
            self._discard()
            raise _translate(error) from error

    async def transact(self, work: Callable[[SqlConnection], T]) -> T:
        result: T = await self._disk.perform(
            f"transact {self._path}", lambda: self._in_transaction(work), lane=self._lane
        )
        return result

    async def close(self) -> None:
        await self._disk.perform(f"close {self._path}", self._close, lane=self._lane)

    def _close(self) -> None:
        """SQLite checkpoints on the way. It keeps quiet if that fails: the log is still there."""
        assert self._connection is not None
        with contextlib.suppress(apsw.Error):
            self._connection.close()
        self._vfs.unregister()

    def _die(self) -> None:
        self._vfs.is_dead = True
        if not self._is_busy:
            self._discard()

    def _discard(self) -> None:
        """Let SQLite free its memory; the writes it makes on the way reach no file."""
        if self._connection is not None:
            with contextlib.suppress(apsw.Error, Died):
                self._connection.close(True)
        with contextlib.suppress(ValueError, apsw.Error):
            self._vfs.unregister()

    def _in_transaction(self, work: Callable[[SqlConnection], T]) -> T:
        if self._vfs.is_dead:
            raise Died
        self._is_busy = True
        try:
            return self._commit(work)
        except apsw.Error as error:
            raise _translate(error) from error
        finally:
            self._is_busy = False
            if self._vfs.is_dead:
                self._discard()

    def _commit(self, work: Callable[[SqlConnection], T]) -> T:
        connection = self._connection
        assert connection is not None
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(_Connection(connection))
            connection.execute("COMMIT")
        except BaseException:
            if not self._vfs.is_dead and connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result


def _translate(error: BaseException) -> BaseException:
    """As the real world's database does it."""
    if isinstance(error, apsw.FullError):
        return Full(f"no room for the database: {error}")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Corrupt(f"database damaged: {error}")
    if isinstance(error, apsw.Error):
        return Unavailable(f"database failed: {error}")
    return error


@contextlib.contextmanager
def _system_errors() -> Iterator[None]:
    """What SQLite's own file system makes of an errno."""
    try:
        yield
    except OSError as error:
        full = error.errno == errno.ENOSPC
        raise (apsw.FullError if full else apsw.IOError)(str(error)) from error


async def open_database(disk: ProcessDisk, path: str) -> SimulatedDatabase:
    database: SimulatedDatabase = await disk.perform(
        f"open_database {path}", lambda: SimulatedDatabase(disk, path)
    )
    return database


class _Connection:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[tuple[SqlValue, ...]]:
        return list(self._connection.execute(sql, tuple(parameters)))


class _FileSystem(apsw.VFS):
    def __init__(self, disk: ProcessDisk) -> None:
        self.disk = disk
        self.is_dead = False
        self.name = f"simulated-{next(_names)}"
        super().__init__(self.name, base="")

    def count_call(self) -> None:
        if self.is_dead:
            raise Died
        if self.disk.disk.is_crash_due():
            self.is_dead = True
            self.disk.disk.crash()
            raise Died

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802
        self.count_call()
        names = self.disk.disk.namespace
        if name is None:
            return _File(self, names.new_inode(), "", is_new=False)
        path = (name if isinstance(name, str) else name.filename()).lstrip("/")
        is_new = path not in names.names
        if is_new and not flags[0] & _CREATE:
            raise apsw.CantOpenError(path)
        flags[1] = flags[0]
        inode = names.create(path) if is_new else names.find(path)
        return _File(self, inode, path, is_new=is_new)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.count_call()
        path = filename.lstrip("/")
        self.disk.disk.namespace.remove(path)
        if syncdir:
            self.disk.disk.sync_directory(parent_of(path))

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        return pathname.lstrip("/") in self.disk.disk.namespace.names

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name

    def xRandomness(self, numbytes: int) -> bytes:  # noqa: N802
        return self.disk.disk.random.randbytes(numbytes)

    def xSleep(self, microseconds: int) -> int:  # noqa: N802
        raise AssertionError("SQLite waits for a lock, but it is alone in its file")

    def xCurrentTime(self) -> float:  # noqa: N802
        return 2440587.5 + self.disk.disk.loop.time() / 86_400

    def xCurrentTimeInt64(self) -> int:  # noqa: N802
        return int(self.xCurrentTime() * 86_400_000)


class _File:
    def __init__(self, vfs: _FileSystem, inode: Inode, path: str, *, is_new: bool) -> None:
        self._vfs = vfs
        self._inode = inode
        self._path = path
        # As SQLite's own file system does: the first sync of a new file saves its name as well.
        self._owes_directory = is_new

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        return self._inode.read(offset, amount)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._vfs.count_call()
        disk = self._vfs.disk.disk
        disk.trace.note(disk.name, f"{self._path} {offset}+{len(data)} {zlib.crc32(data):08x}")
        with _system_errors():
            disk.write(self._inode, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._vfs.count_call()
        with _system_errors():
            self._vfs.disk.disk.truncate(self._inode, newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._vfs.count_call()
        with _system_errors():
            self._vfs.disk.disk.sync(self._inode)
        if self._owes_directory:
            self._owes_directory = False
            self._vfs.disk.disk.sync_directory(parent_of(self._path))

    def xFileSize(self) -> int:  # noqa: N802
        return len(self._inode.cache)

    def xClose(self) -> None:  # noqa: N802
        pass

    def xLock(self, level: int) -> None:  # noqa: N802
        pass

    def xUnlock(self, level: int) -> None:  # noqa: N802
        pass

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return _SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return _CHARACTERISTICS
