"""One segment: a part of the key space, from the epoch that made it to the epoch that sealed it.

A segment is a value. Sealing it, or cutting a link when a neighbour is pruned, makes another one.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from enum import Enum
from typing import NewType

from anabranch.topics.key_range import KeyRange

SegmentId = NewType("SegmentId", int)


class SegmentState(Enum):
    """The values are the names that records carry."""

    ACTIVE = "ACTIVE"
    SEALED = "SEALED"


@dataclass(frozen=True, slots=True)
class Segment:
    id: SegmentId
    keys: KeyRange
    state: SegmentState = SegmentState.ACTIVE
    # In the order the operator named them; pruned ones are gone from here.
    parents: tuple[SegmentId, ...] = ()
    # In the order of their ranges; none while active.
    children: tuple[SegmentId, ...] = ()
    created_at_epoch: int = 0
    # Meaningful only when sealed: a migration seals its parents at epoch 0.
    sealed_at_epoch: int = 0
    # Wall clock of the operation, because epochs are no clock. 0 is "not known".
    created_at_ms: int = 0
    sealed_at_ms: int = 0
    # The regular topic or partition that holds the data, if a `segment://` topic does not.
    legacy_topic: str | None = None
    entry_bucket_splits: tuple[int, ...] = ()

    @property
    def is_active(self) -> bool:
        return self.state is SegmentState.ACTIVE

    @property
    def is_sealed(self) -> bool:
        return self.state is SegmentState.SEALED

    @property
    def is_legacy(self) -> bool:
        return self.legacy_topic is not None

    @property
    def bucket_count(self) -> int:
        return len(self.entry_bucket_splits) + 1

    def sealed(self, children: tuple[SegmentId, ...], epoch: int, at_ms: int) -> Segment:
        assert self.is_active, f"segment {self} is sealed already"
        return replace(
            self,
            state=SegmentState.SEALED,
            children=children,
            sealed_at_epoch=epoch,
            sealed_at_ms=at_ms,
        )

    def without_links_to(self, gone: Container[SegmentId]) -> Segment:
        parents = tuple(each for each in self.parents if each not in gone)
        children = tuple(each for each in self.children if each not in gone)
        if parents == self.parents and children == self.children:
            return self
        return replace(self, parents=parents, children=children)

    def __str__(self) -> str:
        return f"{self.id} [{self.keys}] {self.state.value.lower()}"
