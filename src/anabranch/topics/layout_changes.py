"""Planning a split or a merge: what the children will be, before anything is done.

A plan depends on the layout and its arguments alone, so planning again after a crash gives the
same ids and ranges, and creating the children twice does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.errors import InvalidInput
from anabranch.topics.buckets import bucket_splits, merge_buckets, split_buckets
from anabranch.topics.key_range import KeyRange, union
from anabranch.topics.layout import Change, ChangeKind, Layout
from anabranch.topics.segment import Segment, SegmentId


def plan_split(
    layout: Layout, segment_id: int, now_ms: int, *, points: Sequence[int] = ()
) -> Change:
    """At the midpoint, or before each of the points: the first value of every further child."""
    parent = _active(layout, segment_id)
    ranges = parent.keys.split_at(points) if points else parent.keys.halves()
    buckets = split_buckets(layout.routing, parent.bucket_count, len(ranges))
    return _change(layout, ChangeKind.SPLIT, (parent.id,), ranges, buckets, now_ms)


def plan_merge(layout: Layout, segment_ids: Sequence[int], now_ms: int) -> Change:
    """Two or more neighbours, named in any order."""
    if len(segment_ids) < 2 or len(set(segment_ids)) < len(segment_ids):
        raise InvalidInput(f"a merge takes two or more different segments, not {segment_ids}")
    parents = [_active(layout, each) for each in segment_ids]
    keys = union(parent.keys for parent in parents)
    buckets = merge_buckets(layout.routing, [parent.bucket_count for parent in parents])
    ids = tuple(parent.id for parent in parents)
    return _change(layout, ChangeKind.MERGE, ids, (keys,), buckets, now_ms)


def split(layout: Layout, segment_id: int, now_ms: int, *, points: Sequence[int] = ()) -> Layout:
    return layout.apply(plan_split(layout, segment_id, now_ms, points=points))


def merge(layout: Layout, segment_ids: Sequence[int], now_ms: int) -> Layout:
    return layout.apply(plan_merge(layout, segment_ids, now_ms))


def _active(layout: Layout, segment_id: int) -> Segment:
    segment = layout.segment(segment_id)
    if segment.is_sealed:
        raise InvalidInput(
            f"segment {segment_id} was sealed at epoch {segment.sealed_at_epoch}: "
            f"only active segments split or merge"
        )
    if segment.is_legacy:
        raise InvalidInput(
            f"segment {segment_id} is the regular topic {segment.legacy_topic}: "
            f"migrate it to a scalable topic first"
        )
    return segment


def _change(
    layout: Layout,
    kind: ChangeKind,
    parents: tuple[SegmentId, ...],
    ranges: Sequence[KeyRange],
    buckets: int,
    now_ms: int,
) -> Change:
    epoch = layout.epoch + 1
    children = tuple(
        Segment(
            id=SegmentId(layout.next_segment_id + index),
            keys=keys,
            parents=parents,
            created_at_epoch=epoch,
            created_at_ms=now_ms,
            entry_bucket_splits=bucket_splits(buckets),
        )
        for index, keys in enumerate(ranges)
    )
    return Change(kind, parents, children, epoch, now_ms)
