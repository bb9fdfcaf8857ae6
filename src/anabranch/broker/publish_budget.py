"""How much may be on its way to disk before a connection is no longer read.

Two bounds, in bytes: for one connection, so that none takes all of it, and for the process. Who
crosses either stops reading, and TCP tells the client. Reading resumes at half of the bound, so
that it does not stop and start with every message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class ProcessBudget:
    limit_bytes: int = 256 << 20
    taken_bytes: int = 0
    waiting: list[PublishBudget] = field(default_factory=list)

    def take(self, size: int) -> None:
        self.taken_bytes += size

    def release(self, size: int) -> None:
        self.taken_bytes -= size
        if self.waiting and self.taken_bytes <= self.limit_bytes // 2:
            waiting, self.waiting = self.waiting, []
            for budget in waiting:
                budget.look_again()

    @property
    def is_spent(self) -> bool:
        return self.taken_bytes > self.limit_bytes


class PublishBudget:
    """Of one connection. `pause` and `resume` are its reading."""

    def __init__(
        self,
        process: ProcessBudget,
        limit_bytes: int,
        pause: Callable[[], None],
        resume: Callable[[], None],
    ) -> None:
        self._process = process
        self._limit_bytes = limit_bytes
        self._pause = pause
        self._resume = resume
        self.taken_bytes = 0
        self.is_paused = False

    def take(self, size: int) -> None:
        self.taken_bytes += size
        self._process.take(size)
        if not self.is_paused and (self._process.is_spent or self.taken_bytes > self._limit_bytes):
            self.is_paused = True
            if self._process.is_spent:
                self._process.waiting.append(self)
            self._pause()

    def release(self, size: int) -> None:
        self.taken_bytes -= size
        self._process.release(size)
        if self.is_paused:
            self.look_again()

    def look_again(self) -> None:
        if not self.is_paused or self.taken_bytes > self._limit_bytes // 2:
            return
        if self._process.is_spent:
            if self not in self._process.waiting:
                self._process.waiting.append(self)
            return
        self.is_paused = False
        self._resume()
