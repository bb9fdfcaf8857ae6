"""Where a stored entry is: the pair every layer uses to speak of one.

A position names a ledger and an entry in it. Positions of one managed ledger are ordered as its
entries were written, because its ledgers are created one after another from a counter that only
grows.
"""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    ledger: int
    entry: int

    def next(self) -> Position:
        """The position behind this one in the same ledger; it need not exist yet."""
        return Position(self.ledger, self.entry + 1)

    def previous(self) -> Position:
        """The position before this one in the same ledger; entry -1 means 'before the first'."""
        return Position(self.ledger, self.entry - 1)

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


# Smaller than every position that can be stored: reading from here reads everything.
EARLIEST = Position(-1, -1)
