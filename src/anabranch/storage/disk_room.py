"""Whether the disk has room, and if not, why: several parts of the engine may find it full.

Whoever meets a full disk reports it under its own name, tries again by itself, and clears it once
that works. New entries are refused while any report stands.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from anabranch.runtime.world import Disk

log = logging.getLogger(__name__)
T = TypeVar("T")
# Too many open files is want of room as well: it passes, and nothing is broken.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
_SLOWEST = 16


class DiskRoom:
    def __init__(
        self,
        disk: Disk,
        *,
        reserve_bytes: int,
        retry_seconds: float,
        on_change: Callable[[], None],
    ) -> None:
        self._disk = disk
        self._reserve_bytes = reserve_bytes
        self._retry_seconds = retry_seconds
        self._reports: dict[str, str] = {}
        self._on_change = on_change
        self.reason: str | None = None  # why entries are refused
        self.is_patient = True  # False: insist once only, as the process is about to end

    async def insist(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do it, and again after a pause as long as there is no room for it."""
        pause = self._retry_seconds
        while True:
            try:
                result = await work()
            except OSError as error:
                if error.errno not in NO_ROOM or not self.is_patient:
                    raise
                self._report(what, f"no room for {what}: {error}")
            else:
                self._clear(what)
                return result
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SLOWEST * self._retry_seconds)

    async def check_reserve(self) -> None:
        """Return once more than the reserve is free."""
        await self.insist("the reserve", self._measure)

    async def _measure(self) -> None:
        free = await self._disk.free_bytes()
        if free < self._reserve_bytes:
            raise OSError(
                errno.ENOSPC, f"{free} bytes are free, the reserve is {self._reserve_bytes}"
            )

    def _report(self, what: str, reason: str) -> None:
        if what not in self._reports:
            log.error("disk is full, refusing writes reason=%r", reason)
        self._reports[what] = reason
        self.reason = reason
        self._on_change()

    def _clear(self, what: str) -> None:
        if self._reports.pop(what, None) is None:
            return
        self.reason = next(iter(self._reports.values()), None)
        if self.reason is None:
            log.warning("disk has room again, taking writes")
        self._on_change()
