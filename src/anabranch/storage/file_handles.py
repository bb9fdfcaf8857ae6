"""Open ledger files, no more than a bound: the one unused for longest is closed first."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator

from anabranch.runtime.world import Disk, File


class _Handle:
    __slots__ = ("file", "users")

    def __init__(self, file: File) -> None:
        self.file = file
        self.users = 0


class FileHandles:
    def __init__(self, disk: Disk, limit: int) -> None:
        self._disk = disk
        self._limit = limit
        self._handles: OrderedDict[str, _Handle] = OrderedDict()

    @contextlib.asynccontextmanager
    async def use(self, path: str, *, create: bool = False) -> AsyncIterator[File]:
        """FileNotFoundError unless it exists or `create` is set."""
        handle = await self._acquire(path, create)
        try:
            yield handle.file
        finally:
            handle.users -= 1
            if self._handles.get(path) is not handle:
                if handle.users == 0:
                    await handle.file.close()
            elif len(self._handles) > self._limit:
                await self._close_idle()

    async def drop(self, path: str) -> None:
        """Close it as soon as nobody uses it; the next use opens it anew."""
        handle = self._handles.pop(path, None)
        if handle is not None and handle.users == 0:
            await handle.file.close()

    async def close(self) -> None:
        for path in list(self._handles):
            await self.drop(path)

    def __len__(self) -> int:
        return len(self._handles)

    async def _acquire(self, path: str, create: bool) -> _Handle:
        spare: File | None = None
        if path not in self._handles:
            spare = await self._disk.open(path, create=create)
        # Another may have opened it while we waited: there must be one handle only.
        if path not in self._handles and spare is not None:
            self._handles[path], spare = _Handle(spare), None
        handle = self._handles[path]
        handle.users += 1
        self._handles.move_to_end(path)
        if spare is not None:
            await spare.close()
        return handle

    async def _close_idle(self) -> None:
        idle = [path for path, handle in self._handles.items() if handle.users == 0]
        for path in idle[: len(self._handles) - self._limit]:
            await self.drop(path)
