"""Entry buckets: how a segment's entries are told apart without opening them.

A segment's splits are the first values of its buckets 1 to N-1, rising, on a ring of their own: the
half of the hash that does not route. No splits means one bucket. They never change while the
segment lives. A topic has a budget of buckets, shared out when segments are made: children of a
split share their parent's, a merge adds its parents' up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from anabranch.topics.key_range import KEY_SPACE, KeyRange, equal_ranges
from anabranch.topics.ring import Routing

DEFAULT_BUDGET = 4
# Merges add buckets up, and nothing takes them away again: this is where they stop.
MAX_BUCKETS = 1024


def bucket_splits(count: int) -> tuple[int, ...]:
    """Where the buckets begin if they are of one width."""
    return tuple(bucket.start for bucket in equal_ranges(count)[1:])


def bucket_of(splits: Sequence[int], value: int) -> int:
    """The index of the bucket that a value falls in."""
    return bisect_right(splits, value)


def bucket_ranges(splits: Sequence[int]) -> tuple[KeyRange, ...]:
    """All buckets as ranges, the form in which consumers declare them."""
    return KEY_SPACE.split_at(splits) if splits else (KEY_SPACE,)


def initial_buckets(routing: Routing, budget: int, segments: int) -> int:
    return _allowed(routing, budget // segments)


def split_buckets(routing: Routing, parent: int, children: int) -> int:
    return _allowed(routing, parent // children)


def merge_buckets(routing: Routing, parents: Iterable[int]) -> int:
    return _allowed(routing, sum(parents))


def _allowed(routing: Routing, count: int) -> int:
    if not routing.has_buckets:
        return 1
    return max(1, min(count, MAX_BUCKETS))
