"""Which entries a managed ledger holds: an immutable picture that positions can be asked about.

Ledgers follow one another by rising id, each with entries 0 to n-1, so every entry also has an
ordinal, its place counted from the oldest entry still there. Counting between two positions is a
subtraction of ordinals, however many ledgers lie between. Positions need not exist: one in a
trimmed ledger, or behind the end of one, stands between its neighbours.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.topics.positions import EARLIEST, Position

# Larger than every position that can be stored; on the wire, the largest id there is.
LATEST = Position(2**63 - 1, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Spans:
    ledgers: tuple[int, ...]  # rising
    before: tuple[int, ...]  # entries in all earlier ledgers, one for each ledger
    total: int
    trimmed_to: Position = EARLIEST  # the last entry that was dropped

    @classmethod
    def of(cls, sizes: Iterable[tuple[int, int]], trimmed_to: Position = EARLIEST) -> Spans:
        """From pairs of ledger id and number of entries."""
        ledgers, before, total = [], [], 0
        for ledger, entries in sizes:
            ledgers.append(ledger)
            before.append(total)
            total += entries
        return cls(tuple(ledgers), tuple(before), total, trimmed_to)

    def with_last(self, entries: int) -> Spans:
        """The same with so many entries in the last ledger: how a growing one is followed."""
        return Spans(self.ledgers, self.before, self.before[-1] + entries, self.trimmed_to)

    def entries_of(self, ledger: int) -> int:
        """How many entries it has; 0 if it is not there."""
        at = bisect_left(self.ledgers, ledger)
        if at == len(self.ledgers) or self.ledgers[at] != ledger:
            return 0
        return self._end_of(at) - self.before[at]

    def has(self, position: Position) -> bool:
        return 0 <= position.entry < self.entries_of(position.ledger)

    def ordinal(self, position: Position) -> int:
        """How many entries there are up to and including `position`."""
        at = bisect_right(self.ledgers, position.ledger) - 1
        if at < 0:
            return 0
        if self.ledgers[at] != position.ledger:
            return self._end_of(at)
        return min(self.before[at] + max(position.entry + 1, 0), self._end_of(at))

    def at(self, ordinal: int) -> Position:
        """The entry at this place, the oldest being 0."""
        assert 0 <= ordinal < self.total, (ordinal, self.total)
        # Of several ledgers that begin here all but the last are empty.
        at = bisect_right(self.before, ordinal) - 1
        return Position(self.ledgers[at], ordinal - self.before[at])

    def following(self, position: Position) -> Position | None:
        """The first entry behind `position`."""
        ordinal = self.ordinal(position)
        return self.at(ordinal) if ordinal < self.total else None

    def first_from(self, position: Position) -> Position | None:
        """`position` itself if there is such an entry, else the first behind it."""
        return self.following(position.previous())

    def preceding(self, position: Position) -> Position:
        """The last entry before `position`, or a place before the first one."""
        ordinal = self.ordinal(position.previous())
        return self.at(ordinal - 1) if ordinal else self.start

    @property
    def start(self) -> Position:
        """A place just before the first entry."""
        if not self.ledgers:
            return self.trimmed_to
        return max(Position(self.ledgers[0], -1), self.trimmed_to)

    @property
    def last(self) -> Position:
        """The last entry; if there is none, the place just before the next one."""
        return self.at(self.total - 1) if self.total else self.start

    def _end_of(self, at: int) -> int:
        return self.before[at + 1] if at + 1 < len(self.before) else self.total
