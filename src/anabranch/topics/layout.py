"""Which segments a topic has had, and which of them take writes.

A layout is a value: a split, merge or prune returns a new one, with a higher epoch. Readers need no
lock, and an old layout is never wrong, only late. The active segments tile the key space exactly,
because a gap would lose messages and an overlap would break the order of a key. Ids only grow and
are never given twice, so a parent's id is always below its children's.

A split or merge is first planned as a `Change`, which can be written down before anything happens,
and then applied to the very layout it was planned for; `layout_changes.py` plans.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from anabranch.errors import InvalidInput, NotFound, Stale
from anabranch.topics.layout_flaws import find_flaw
from anabranch.topics.ring import DEFAULT_ROUTING, Routing
from anabranch.topics.segment import Segment, SegmentId


class ChangeKind(Enum):
    """The values are the names that records carry."""

    SPLIT = "SPLIT"
    MERGE = "MERGE"


@dataclass(frozen=True, slots=True)
class Change:
    """A split or merge as planned: everything about it is settled, down to the children's ids."""

    kind: ChangeKind
    parents: tuple[SegmentId, ...]
    children: tuple[Segment, ...]
    # The epoch that the change will bring about.
    epoch: int
    # One time for the whole operation, kept when it is tried again.
    at_ms: int

    @property
    def child_ids(self) -> tuple[SegmentId, ...]:
        return tuple(child.id for child in self.children)

    def __str__(self) -> str:
        parents = ",".join(str(each) for each in self.parents)
        children = ", ".join(f"{child.id} [{child.keys}]" for child in self.children)
        return f"{self.kind.value.lower()} {parents} -> {children} at epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class Layout:
    epoch: int
    next_segment_id: int
    # By rising id.
    segments: tuple[Segment, ...]
    routing: Routing = DEFAULT_ROUTING
    # In the order of their ranges, which is also the order of the keyless round robin.
    active: tuple[Segment, ...] = field(init=False, repr=False, compare=False)
    # Whether this stands for a regular topic: keys go to partitions, and nothing may split.
    is_legacy: bool = field(init=False, repr=False, compare=False)
    _by_id: dict[SegmentId, Segment] = field(init=False, repr=False, compare=False)
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        flaw = find_flaw(self.epoch, self.next_segment_id, self.segments)
        assert flaw is None, flaw
        active = [segment for segment in self.segments if segment.is_active]
        active.sort(key=lambda segment: (segment.keys, segment.id))
        assign = object.__setattr__  # the way a frozen dataclass fills its own derived fields
        assign(self, "active", tuple(active))
        assign(self, "is_legacy", all(segment.is_legacy for segment in active))
        assign(self, "_by_id", {segment.id: segment for segment in self.segments})
        assign(self, "_starts", [segment.keys.start for segment in active])

    def get(self, segment_id: int) -> Segment | None:
        return self._by_id.get(SegmentId(segment_id))

    def segment(self, segment_id: int) -> Segment:
        found = self.get(segment_id)
        if found is None:
            raise NotFound(f"no segment {segment_id} in the layout of epoch {self.epoch}")
        return found

    def active_at(self, ring_value: int) -> Segment | None:
        """The active segment whose range holds the value; a legacy layout may have none."""
        found = self.active[bisect_right(self._starts, ring_value) - 1]
        # Elsewhere the ranges tile, and to look again would cost every message.
        return found if not self.is_legacy or found.keys.contains(ring_value) else None

    def apply(self, change: Change) -> Layout:
        """The layout after a change, which must have been planned for exactly this one."""
        self._check_planned_for_this(change)
        sealed = {
            each: self.segment(each).sealed(change.child_ids, change.epoch, change.at_ms)
            for each in change.parents
        }
        kept = tuple(sealed.get(segment.id, segment) for segment in self.segments)
        following = self.next_segment_id + len(change.children)
        return Layout(change.epoch, following, kept + change.children, self.routing)

    def has_applied(self, change: Change) -> bool:
        """Whether a change is part of this layout's past, for a writer that missed the answer."""
        parents = [self.get(each) for each in change.parents]
        return (
            self.epoch >= change.epoch
            and not any(parent.is_active for parent in parents if parent is not None)
            and all(self._was_made(child, change) for child in change.children)
        )

    def prune(self, segment_ids: Iterable[int]) -> tuple[Layout, tuple[Segment, ...]]:
        """Forget sealed segments, an epoch for each; also returns them as they were.

        Their neighbours' links are cut, so a pruned segment's own links are the only trace left of
        those edges: keep the returned segments for as long as somebody may ask.
        """
        gone = dict.fromkeys(self.segment(each).id for each in segment_ids)
        for each in gone:
            if self._by_id[each].is_active:
                raise InvalidInput(f"segment {self._by_id[each]} cannot be pruned: seal it first")
        kept = tuple(
            segment.without_links_to(gone) for segment in self.segments if segment.id not in gone
        )
        layout = Layout(self.epoch + len(gone), self.next_segment_id, kept, self.routing)
        return layout, tuple(self._by_id[each] for each in gone)

    def _was_made(self, child: Segment, change: Change) -> bool:
        present = self.get(child.id)
        if present is None:  # pruned since, unless its id was never given
            return child.id < self.next_segment_id
        return (present.keys, present.created_at_epoch) == (child.keys, change.epoch)

    def _check_planned_for_this(self, change: Change) -> None:
        first = self.next_segment_id
        expected = tuple(range(first, first + len(change.children)))
        sealed = [each for each in change.parents if not self.segment(each).is_active]
        if change.epoch != self.epoch + 1 or change.child_ids != expected or sealed:
            raise Stale(
                f"{change} was planned for another layout: this one is at epoch {self.epoch}, "
                f"next id {first}, sealed parents {sealed}; plan it again"
            )


def checked_layout(
    epoch: int,
    next_segment_id: int,
    segments: Sequence[Segment],
    routing: Routing = DEFAULT_ROUTING,
) -> Layout:
    """A layout made of parts that crossed a boundary, in any order."""
    flaw = find_flaw(epoch, next_segment_id, segments)
    if flaw is not None:
        raise InvalidInput(f"not a layout: {flaw}")
    ordered = tuple(sorted(segments, key=lambda segment: segment.id))
    return Layout(epoch, next_segment_id, ordered, routing)
