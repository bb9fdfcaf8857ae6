"""Writes that wait while a transaction is under way become the next one, all together.

There is no timer: the first write starts a transaction, and how many share the next one follows
from how long that takes. What waits is bounded; beyond the bound, writes are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from anabranch.errors import AnabranchError, Full, Unavailable
from anabranch.metadata.tree import EndSession, Operation, Outcome, Put, Written

log = logging.getLogger(__name__)

# A transaction is limited so that the first of a large crowd need not wait for the last.
MAX_GROUP: Final = 4_096
# What may wait for the disk. Values are at most 1 MB, so the bytes are the bound that matters.
MAX_WAITING: Final = 65_536
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024

# Carries out a group, durably and visibly, and returns an outcome for each. Raises Full if all of
# it was rolled back; anything else it raises means that nobody knows.
WriteGroup: TypeAlias = Callable[[Sequence[Operation]], Awaitable[Sequence[Outcome]]]


@dataclass(frozen=True, slots=True)
class Waiting:
    operation: Operation
    done: asyncio.Future[Written | None]

    @property
    def value_bytes(self) -> int:
        return len(self.operation.value) if isinstance(self.operation, Put) else 0


class GroupCommit:
    def __init__(self, write: WriteGroup, on_failure: Callable[[str], None]) -> None:
        self.failure = ""  # why it takes no more writes, once that is so
        self._write = write
        self._on_failure = on_failure
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._writer: asyncio.Task[None] | None = None

    async def submit(self, operation: Operation) -> Written | None:
        self.check_working()
        waiting = Waiting(operation, asyncio.get_running_loop().create_future())
        self._check_room_for(waiting)
        self._waiting.append(waiting)
        self._waiting_bytes += waiting.value_bytes
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_groups())
        return await waiting.done

    async def drain(self) -> None:
        """Return once everything that was submitted is decided."""
        if self._writer is not None:
            await self._writer

    def check_working(self) -> None:
        if self.failure:
            raise Unavailable(self.failure)

    def fail(self, error: Exception) -> None:
        """Take no more writes, and leave nobody waiting."""
        self._fail([], error)

    def _check_room_for(self, waiting: Waiting) -> None:
        # A session that ends frees room, and its owner could do nothing about a refusal.
        if isinstance(waiting.operation, EndSession):
            return
        size = self._waiting_bytes + waiting.value_bytes
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
            _settle(group, await self._write([waiting.operation for waiting in group]))
        except Full as error:
            log.warning("metadata writes refused count=%d reason=%s", len(group), error)
            _settle(group, [Full(f"metadata not written: {error}") for _ in group])
        except Exception as error:  # also a mistake of ours: nobody may be left waiting
            self._fail(group, error)

    def _fail(self, group: list[Waiting], error: Exception) -> None:
        self.failure = f"metadata database failed, restart to recover: {error!r}"
        log.error("%s", self.failure)
        group = [*group, *self._waiting]
        self._waiting.clear()
        self._waiting_bytes = 0
        self._on_failure(self.failure)
        _settle(group, [Unavailable(self.failure) for _ in group])


def _settle(group: list[Waiting], outcomes: Sequence[Outcome]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if waiting.done.done():  # its caller was cancelled
            continue
        if isinstance(outcome, AnabranchError):
            waiting.done.set_exception(outcome)
        else:
            waiting.done.set_result(outcome)
