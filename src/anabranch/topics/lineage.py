"""Who came before a segment and who came after, among the segments still in the layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anabranch.topics.layout import Layout
from anabranch.topics.segment import Segment, SegmentId


def ancestors(layout: Layout, segment_id: int) -> frozenset[SegmentId]:
    return _reachable(layout, segment_id, lambda segment: segment.parents)


def descendants(layout: Layout, segment_id: int) -> frozenset[SegmentId]:
    return _reachable(layout, segment_id, lambda segment: segment.children)


def lineage(layout: Layout, segment_id: int) -> frozenset[SegmentId]:
    """The segment with everything that came before and after it."""
    own = frozenset({layout.segment(segment_id).id})
    return own | ancestors(layout, segment_id) | descendants(layout, segment_id)


def present_parents(layout: Layout, segment_id: int) -> tuple[Segment, ...]:
    """The parents that a reader still has to finish first; pruned ones are finished."""
    found = (layout.get(each) for each in layout.segment(segment_id).parents)
    return tuple(parent for parent in found if parent is not None)


def merge_depth(layout: Layout, segment_id: int) -> int:
    """How many merges lead to this segment, each counted once and pruned ones forgotten.

    A migration's children count one if there was more than one partition.
    """
    own = layout.segment(segment_id)
    before = ancestors(layout, segment_id)
    segments = (own, *(layout.segment(each) for each in before))
    return sum(len(segment.parents) >= 2 for segment in segments)


def parents_first(layout: Layout) -> tuple[Segment, ...]:
    """All segments in an order of reading that keeps each key in order.

    Ids only grow, so rising ids put every parent before its children.
    """
    return layout.segments


def _reachable(
    layout: Layout, segment_id: int, links: Callable[[Segment], Iterable[SegmentId]]
) -> frozenset[SegmentId]:
    found: set[SegmentId] = set()
    to_visit = [layout.segment(segment_id)]
    while to_visit:
        for each in links(to_visit.pop()):
            segment = layout.get(each)
            if segment is not None and each not in found:
                found.add(each)
                to_visit.append(segment)
    return frozenset(found)
