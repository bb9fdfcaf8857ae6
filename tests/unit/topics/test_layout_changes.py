from __future__ import annotations

import pytest

from anabranch.errors import InvalidInput, NotFound
from anabranch.topics.layout import ChangeKind, Layout
from anabranch.topics.layout_changes import merge, plan_merge, plan_split, split
from anabranch.topics.names import SegmentDescriptor, parse_topic_name
from anabranch.topics.new_layouts import initial_layout, synthetic_layout
from anabranch.topics.ring import Routing


def active(layout: Layout) -> list[str]:
    return [str(SegmentDescriptor(each.keys, each.id)) for each in layout.active]


def test_split_gives_the_layouts_of_the_protocol_tables() -> None:
    once = split(initial_layout(1, 0), 0, 1)
    assert active(once) == ["0000-7fff-1", "8000-ffff-2"]
    assert active(split(once, 1, 2)) == ["0000-3fff-3", "4000-7fff-4", "8000-ffff-2"]


def test_split_seals_the_parent_and_links_both_ways() -> None:
    layout = split(initial_layout(1, 10), 0, 20)
    parent, left, right = layout.segments
    assert parent.is_sealed
    assert parent.children == (1, 2)
    assert (parent.created_at_epoch, parent.sealed_at_epoch) == (0, 1)
    assert (parent.created_at_ms, parent.sealed_at_ms) == (10, 20)
    for child in (left, right):
        assert child.parents == (0,)
        assert (child.created_at_epoch, child.created_at_ms) == (1, 20)
        assert (child.sealed_at_epoch, child.sealed_at_ms) == (0, 0)
    assert (layout.epoch, layout.next_segment_id) == (1, 3)


def test_split_at_points_makes_children_in_range_order() -> None:
    layout = split(initial_layout(1, 0), 0, 1, points=[0x1000, 0x2000, 0xFFFF])
    assert active(layout) == ["0000-0fff-1", "1000-1fff-2", "2000-fffe-3", "ffff-ffff-4"]
    assert layout.epoch == 1


@pytest.mark.parametrize("points", [[0], [0x10000], [5, 5], [9, 5]])
def test_split_at_bad_points_is_refused(points: list[int]) -> None:
    with pytest.raises(InvalidInput, match="split points"):
        plan_split(initial_layout(1, 0), 0, 1, points=points)


def test_split_of_one_value_is_refused() -> None:
    layout = split(initial_layout(1, 0), 0, 1, points=[1])
    with pytest.raises(InvalidInput, match="0000-0000 holds one value"):
        plan_split(layout, 1, 2)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_merge_takes_neighbours_in_any_order_and_remembers_it(order: tuple[int, int]) -> None:
    layout = merge(split(initial_layout(1, 0), 0, 1), order, 2)
    assert active(layout) == ["0000-ffff-3"]
    assert layout.segment(3).parents == order
    assert all(layout.segment(each).children == (3,) for each in order)
    assert (layout.epoch, layout.next_segment_id) == (2, 4)


def test_merge_of_more_than_two_is_one_transition() -> None:
    layout = merge(initial_layout(4, 0), (3, 1, 2), 1)
    assert active(layout) == ["0000-3fff-0", "4000-ffff-4"]
    assert layout.segment(4).parents == (3, 1, 2)
    assert layout.epoch == 1


@pytest.mark.parametrize("segments", [(), (1,), (1, 1), (1, 2, 1)])
def test_merge_takes_two_or_more_different_segments(segments: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="two or more different"):
        plan_merge(initial_layout(4, 0), segments, 1)


@pytest.mark.parametrize("segments", [(0, 2), (0, 1, 3)])
def test_merge_of_segments_that_do_not_touch_is_refused(segments: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="not adjacent"):
        plan_merge(initial_layout(4, 0), segments, 1)


def test_sealed_segment_neither_splits_nor_merges() -> None:
    layout = split(initial_layout(2, 0), 0, 1)
    with pytest.raises(InvalidInput, match="segment 0 was sealed at epoch 1"):
        plan_split(layout, 0, 2)
    with pytest.raises(InvalidInput, match="segment 0 was sealed at epoch 1"):
        plan_merge(layout, (0, 1), 2)


def test_missing_segment_is_not_found() -> None:
    with pytest.raises(NotFound, match="no segment 5"):
        plan_split(initial_layout(1, 0), 5, 1)
    with pytest.raises(NotFound, match="no segment 5"):
        plan_merge(initial_layout(1, 0), (0, 5), 1)


def test_regular_topic_must_migrate_before_it_splits() -> None:
    layout = synthetic_layout(parse_topic_name("x"), 2)
    with pytest.raises(InvalidInput, match="x-partition-1: migrate it"):
        plan_split(layout, 1, 1)


def test_plan_is_the_same_each_time_and_changes_nothing() -> None:
    layout = initial_layout(2, 0)
    change = plan_split(layout, 1, 5)
    assert change == plan_split(layout, 1, 5)
    assert layout == initial_layout(2, 0)
    assert (change.kind, change.parents, change.child_ids) == (ChangeKind.SPLIT, (1,), (2, 3))
    assert (change.epoch, change.at_ms) == (1, 5)
    assert str(change) == "split 1 -> 2 [8000-bfff], 3 [c000-ffff] at epoch 1"


def test_buckets_are_divided_by_splits_and_added_by_merges() -> None:
    layout = initial_layout(1, 0)
    assert layout.segment(0).entry_bucket_splits == (0x4000, 0x8000, 0xC000)
    layout = split(layout, 0, 1)
    assert layout.segment(1).entry_bucket_splits == (0x8000,)
    layout = merge(layout, (1, 2), 2)
    assert layout.segment(3).entry_bucket_splits == (0x4000, 0x8000, 0xC000)
    layout = split(layout, 3, 3, points=[1, 2, 3, 4])
    assert layout.active[0].entry_bucket_splits == ()


def test_layout_routed_by_the_low_half_never_has_buckets() -> None:
    layout = merge(initial_layout(2, 0, routing=Routing.LOW16), (0, 1), 1)
    assert layout.segment(2).bucket_count == 1
    assert layout.routing is Routing.LOW16
