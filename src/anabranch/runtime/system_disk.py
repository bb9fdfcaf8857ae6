"""Files of the real world: system calls in threads, completions back on the loop.

Three kinds of thread, so that no slow call waits behind another: a small pool for reads and lazy
writes, one thread per file that asks for its own (the journal), one per database.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from anabranch.errors import AnabranchError, Corrupt, Full, Unavailable
from anabranch.runtime.world import Buffer, SqlConnection, SqlValue

T = TypeVar("T")

# Linux takes at most this many buffers in one pwritev.
_IOV_MAX = 1024
# Pieces smaller than this are copied together: one long copy is cheaper than many iovec entries.
_JOIN_BELOW_BYTES = 16 * 1024
_POOL_THREADS = 4
# For another's transaction: alone, there is none, and whoever holds the file will not let go.
_ALONE_WAIT_SECONDS = 0.2
_SHARED_WAIT_SECONDS = 60.0


class Lane:
    """One thread that runs calls in order. Its hand-over is half the price of an executor's."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def carry_out() -> None:
            try:
                result = function()
            except BaseException as error:
                _post(loop, _settle_error, future, error)
            else:
                _post(loop, _settle, future, result)

        self._calls.put(carry_out)
        return future

    def stop(self) -> None:
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _post(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    # The loop may be gone when the process is on its way out; then nobody waits for the answer.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)


def _settle(future: asyncio.Future[Any], result: object) -> None:
    if not future.cancelled():
        future.set_result(result)


def _settle_error(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.cancelled():
        future.set_exception(error)


class SystemFile:
    def __init__(self, descriptor: int, pool: ThreadPoolExecutor, lane: Lane | None) -> None:
        self._descriptor = descriptor
        self._pool = pool
        self._lane = lane

    async def read(self, offset: int, size: int) -> bytes:
        return await self._call(lambda: _read_all(self._descriptor, offset, size))

    async def write(self, offset: int, pieces: Sequence[Buffer], *, sync: bool = False) -> None:
        def write() -> None:
            _write_all(self._descriptor, offset, pieces)
            if sync:
                os.fdatasync(self._descriptor)

        await self._call(write)

    async def sync(self) -> None:
        await self._call(lambda: os.fdatasync(self._descriptor))

    async def truncate(self, size: int) -> None:
        await self._call(lambda: os.ftruncate(self._descriptor, size))

    async def size(self) -> int:
        return await self._call(lambda: os.fstat(self._descriptor).st_size)

    async def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        if self._lane is not None:
            self._lane.stop()

    async def _call(self, function: Callable[[], T]) -> T:
        if self._lane is not None:
            return await self._lane.call(function)
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)


def _read_all(descriptor: int, offset: int, size: int) -> bytes:
    found = os.pread(descriptor, size, offset)
    if len(found) in (0, size):
        return found
    parts = [found]
    done = len(found)
    while done < size and (found := os.pread(descriptor, size - done, offset + done)):
        parts.append(found)
        done += len(found)
    return b"".join(parts)


def _write_all(descriptor: int, offset: int, pieces: Sequence[Buffer]) -> None:
    vectors = _join_small(pieces)
    for start in range(0, len(vectors), _IOV_MAX):
        some = vectors[start : start + _IOV_MAX]
        wanted = sum(len(piece) for piece in some)
        written = os.pwritev(descriptor, some, offset)
        if written < wanted:  # a signal, or the disk filled up half way: the rest says which
            _write_rest(descriptor, offset + written, memoryview(b"".join(some))[written:])
        offset += wanted


def _write_rest(descriptor: int, offset: int, rest: memoryview) -> None:
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest = rest[written:]
        offset += written


def _join_small(pieces: Sequence[Buffer]) -> list[Buffer]:
    """Neighbouring small pieces become one; large ones are passed by reference."""
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) < _JOIN_BELOW_BYTES:
            small.append(piece)
            continue
        if small:
            joined.append(b"".join(small))
            small = []
        joined.append(memoryview(piece).cast("B") if isinstance(piece, memoryview) else piece)
    if small:
        joined.append(b"".join(small))
    return joined


class SystemLock:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise Unavailable(
                f"{path} is held by another running process; stop it, or use another directory"
            ) from None

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class SystemConnection:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[tuple[SqlValue, ...]]:
        return self._connection.execute(sql, parameters).fetchall()


class SystemDatabase:
    """Alone in its file: exclusive locking also spares WAL its shared-memory file.

    With `shared`, one of several processes of this machine; a transaction waits for the others'.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        locking = "NORMAL" if shared else "EXCLUSIVE"
        try:
            self._connection = sqlite3.connect(
                path,
                timeout=_SHARED_WAIT_SECONDS if shared else _ALONE_WAIT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise _translate(error) from error
        try:
            for pragma in (f"locking_mode={locking}", "journal_mode=WAL", "synchronous=FULL"):
                self._connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error as error:
            self._connection.close()
            raise _translate(error) from error
        self._lane = Lane(f"sqlite {path.name}")
        self._is_closed = False

    async def transact(self, work: Callable[[SqlConnection], T]) -> T:
        return await self._lane.call(lambda: self._in_transaction(work))

    async def close(self) -> None:
        if not self._is_closed:  # else nobody is left to carry it out
            self._is_closed = True
            await self._lane.call(self._connection.close)
            self._lane.stop()

    def _in_transaction(self, work: Callable[[SqlConnection], T]) -> T:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(SystemConnection(self._connection))
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise _translate(error) from error
        return result


def _translate(error: sqlite3.Error) -> AnabranchError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
    if code == sqlite3.SQLITE_FULL:
        return Full(f"no room for the database: {error}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Corrupt(f"database damaged: {error}")
    return Unavailable(f"database failed: {getattr(error, 'sqlite_errorname', '')} {error}")


class SystemDisk:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._pool = ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="disk")

    async def open(
        self, path: str, *, create: bool = False, own_thread: bool = False
    ) -> SystemFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = await self._call(lambda: os.open(self._root / path, flags, 0o644))
        return SystemFile(descriptor, self._pool, Lane(f"file {path}") if own_thread else None)

    async def exists(self, path: str) -> bool:
        return await self._call((self._root / path).exists)

    async def make_directory(self, path: str) -> None:
        def make() -> None:
            directory = self._root / path
            directory.mkdir(parents=True, exist_ok=True)
            for level in [directory, *directory.parents][: len(Path(path).parts) + 2]:
                _sync_directory(level)

        await self._call(make)

    async def list_directory(self, path: str) -> list[str]:
        def names() -> list[str]:
            with contextlib.suppress(FileNotFoundError):
                return sorted(os.listdir(self._root / path))
            return []

        return await self._call(names)

    async def rename(self, old: str, new: str) -> None:
        await self._call(lambda: (self._root / old).rename(self._root / new))

    async def remove(self, path: str) -> None:
        await self._call((self._root / path).unlink)

    async def sync_directory(self, path: str) -> None:
        await self._call(lambda: _sync_directory(self._root / path))

    async def free_bytes(self) -> int:
        def free() -> int:
            status = os.statvfs(self._root)
            return status.f_bavail * status.f_frsize

        return await self._call(free)

    def lock(self, path: str) -> SystemLock:
        return SystemLock(self._root / path)

    async def open_database(self, path: str) -> SystemDatabase:
        return await self._call(lambda: SystemDatabase(self._root / path))

    async def open_shared_database(self, path: str) -> SystemDatabase:
        return await self._call(lambda: SystemDatabase(self._root / path, shared=True))

    async def _call(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
