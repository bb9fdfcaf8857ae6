"""Clocks that people, batteries and NTP have been at.

The wall clock belongs to the machine: it drifts, jumps both ways, and keeps its error across a
restart. The monotonic clock belongs to a process: it never goes back, and every process finds it
at another origin, so a value of it that was written to disk means nothing to the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

EPOCH_MS = 1_700_000_000_000


class WallClock:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._offset_ms = 0.0
        self._drift = 0.0

    def now_ms(self) -> int:
        return EPOCH_MS + int(self._now() * 1000 * (1 + self._drift) + self._offset_ms)

    def jump(self, milliseconds: float) -> None:
        self._offset_ms += milliseconds

    def drift_by(self, share: float) -> None:
        """From here on run faster (or slower) by this share; the time shown does not jump."""
        self._offset_ms += self._now() * 1000 * (self._drift - share)
        self._drift = share


@dataclass(frozen=True, slots=True)
class ProcessClock:
    wall: WallClock
    now: Callable[[], float]
    origin: float

    def wall_ms(self) -> int:
        return self.wall.now_ms()

    def monotonic(self) -> float:
        return self.origin + self.now()
