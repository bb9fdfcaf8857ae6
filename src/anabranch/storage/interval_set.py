"""A set of integers kept as runs: what out-of-order acknowledgements of one ledger come to.

Two parallel sorted lists, first and last of every run; runs neither overlap nor touch. Adding is
a binary search and, at worst, the move of a list's tail in memory. Runs at the end, by far the
commonest, cost neither.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class IntervalSet:
    __slots__ = ("_firsts", "_lasts", "size")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.size = 0  # integers in the set

    def __len__(self) -> int:
        """Runs, not integers: what a stored set costs."""
        return len(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    def __contains__(self, value: int) -> bool:
        at = bisect_right(self._firsts, value) - 1
        return at >= 0 and value <= self._lasts[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return self._firsts == other._firsts and self._lasts == other._lasts

    def __repr__(self) -> str:
        return f"IntervalSet({list(self)})"

    @property
    def first(self) -> int:
        """The smallest integer in it; there must be one."""
        return self._firsts[0]

    def add(self, first: int, last: int) -> int:
        """Add first to last, both included; how many of them were new."""
        firsts, lasts = self._firsts, self._lasts
        if not lasts or first > lasts[-1] + 1:
            firsts.append(first)
            lasts.append(last)
            added = last - first + 1
        else:
            added = self._merge(first, last)
        self.size += added
        return added

    def _merge(self, first: int, last: int) -> int:
        firsts, lasts = self._firsts, self._lasts
        # Runs [low, high) overlap the new one or touch it, and become one run with it.
        low = bisect_left(lasts, first - 1)
        high = bisect_right(firsts, last + 1, low)
        if low == high:
            firsts.insert(low, first)
            lasts.insert(low, last)
            return last - first + 1
        first = min(first, firsts[low])
        last = max(last, lasts[high - 1])
        if high == low + 1:
            known = lasts[low] - firsts[low] + 1
            firsts[low], lasts[low] = first, last
        else:
            known = sum(lasts[low:high]) - sum(firsts[low:high]) + high - low
            firsts[low:high], lasts[low:high] = [first], [last]
        return last - first + 1 - known

    def next_absent(self, value: int) -> int:
        """The smallest integer from `value` on that is not in the set."""
        at = bisect_right(self._firsts, value) - 1
        return self._lasts[at] + 1 if at >= 0 and value <= self._lasts[at] else value

    def discard_through(self, bound: int) -> None:
        """Forget everything up to `bound`, itself included."""
        cut = bisect_right(self._firsts, bound)
        if cut == 0:
            return
        rest_last = self._lasts[cut - 1]
        self.size -= sum(self._lasts[:cut]) - sum(self._firsts[:cut]) + cut
        del self._firsts[:cut], self._lasts[:cut]
        if rest_last > bound:
            self._firsts.insert(0, bound + 1)
            self._lasts.insert(0, rest_last)
            self.size += rest_last - bound
