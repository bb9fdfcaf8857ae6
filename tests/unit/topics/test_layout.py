from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.errors import InvalidInput, NotFound, Stale
from anabranch.topics.key_range import KEY_SPACE, KeyRange
from anabranch.topics.layout import Layout, checked_layout
from anabranch.topics.layout_changes import merge, plan_merge, plan_split, split
from anabranch.topics.new_layouts import initial_layout
from anabranch.topics.segment import Segment, SegmentId


def test_lookup_of_a_missing_segment_says_which_and_when() -> None:
    layout = split(initial_layout(1, 0), 0, 1)
    assert layout.get(9) is None
    with pytest.raises(NotFound, match="no segment 9 in the layout of epoch 1"):
        layout.segment(9)


def test_active_segments_are_in_the_order_of_their_ranges() -> None:
    layout = split(initial_layout(2, 0), 0, 1)
    assert [segment.id for segment in layout.active] == [2, 3, 1]


def test_each_value_has_the_active_segment_whose_range_holds_it() -> None:
    layout = split(initial_layout(2, 0), 0, 1)
    found = [layout.active_at(value) for value in (0, 0x3FFF, 0x4000, 0x7FFF, 0x8000, 0xFFFF)]
    assert [segment.id for segment in found if segment] == [2, 2, 3, 3, 1, 1]


def test_change_is_applied_only_to_the_layout_it_was_planned_for() -> None:
    layout = initial_layout(2, 0)
    change = plan_split(layout, 0, 1)
    moved = split(layout, 1, 1)
    with pytest.raises(Stale, match="planned for another layout: this one is at epoch 1"):
        moved.apply(change)


def test_change_is_not_applied_twice() -> None:
    layout = initial_layout(1, 0)
    change = plan_split(layout, 0, 1)
    with pytest.raises(Stale, match=r"sealed parents \[0\]"):
        layout.apply(change).apply(change)


def test_writer_that_missed_the_answer_finds_its_change_applied() -> None:
    layout = initial_layout(2, 0)
    change = plan_merge(layout, (0, 1), 1)
    after = layout.apply(change)
    assert not layout.has_applied(change)
    assert after.has_applied(change)
    assert split(after, 2, 2).has_applied(change)


def test_another_change_with_the_same_ids_is_not_taken_for_ours() -> None:
    layout = initial_layout(2, 0)
    ours, theirs = plan_split(layout, 0, 1), plan_split(layout, 1, 1)
    assert not layout.apply(theirs).has_applied(ours)


def test_prune_between_plan_and_commit_is_noticed_though_all_ids_still_fit() -> None:
    layout = split(initial_layout(1, 0), 0, 1)
    change = plan_split(layout, 1, 2)
    pruned, _ = layout.prune([0])
    assert pruned.epoch == change.epoch
    assert not pruned.has_applied(change)
    with pytest.raises(Stale, match="this one is at epoch 2, next id 3"):
        pruned.apply(change)


def test_change_whose_children_are_pruned_already_was_applied_if_its_parents_are_sealed() -> None:
    layout = initial_layout(2, 0)
    ours, theirs = plan_split(layout, 0, 1), plan_split(layout, 1, 1)
    after = layout.apply(theirs)
    after, _ = merge(after, (2, 3), 2).prune([2, 3])
    assert after.has_applied(theirs)
    assert not after.has_applied(ours)


def test_prune_forgets_a_sealed_segment_and_cuts_the_links_to_it() -> None:
    layout = split(initial_layout(1, 0), 0, 1)
    pruned, gone = layout.prune([0])
    assert [segment.id for segment in pruned.segments] == [1, 2]
    assert [segment.parents for segment in pruned.segments] == [(), ()]
    assert (pruned.epoch, pruned.next_segment_id) == (2, 3)
    assert gone == (layout.segment(0),)
    assert gone[0].children == (1, 2)


def test_prune_raises_the_epoch_once_for_each_segment() -> None:
    layout = merge(split(initial_layout(1, 0), 0, 1), (1, 2), 2)
    pruned, gone = layout.prune([0, 1, 2])
    assert pruned.epoch == layout.epoch + 3
    assert [segment.id for segment in gone] == [0, 1, 2]
    assert [segment.id for segment in pruned.segments] == [3]


def test_prune_of_a_child_before_its_parent_leaves_no_dangling_link() -> None:
    layout = merge(split(initial_layout(1, 0), 0, 1), (1, 2), 2)
    pruned, _ = layout.prune([1])
    assert pruned.segment(0).children == (2,)
    assert pruned.segment(3).parents == (2,)


def test_naming_a_segment_twice_prunes_it_once() -> None:
    pruned, gone = split(initial_layout(1, 0), 0, 1).prune([0, 0])
    assert (pruned.epoch, len(gone)) == (2, 1)


def test_active_segment_is_never_pruned() -> None:
    layout = split(initial_layout(1, 0), 0, 1)
    with pytest.raises(InvalidInput, match=r"segment 1 \[0000-7fff\] active cannot be pruned"):
        layout.prune([0, 1])


def test_pruning_what_is_not_there_is_told() -> None:
    with pytest.raises(NotFound, match="no segment 7"):
        initial_layout(1, 0).prune([7])


def test_equal_layouts_are_equal_whatever_they_have_cached() -> None:
    assert split(initial_layout(1, 0), 0, 1) == split(initial_layout(1, 0), 0, 1)
    assert len({initial_layout(2, 0), initial_layout(2, 0)}) == 1


def test_layout_of_our_own_making_with_a_flaw_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="do not tile"):
        Layout(0, 1, (Segment(SegmentId(0), KeyRange(0, 5)),))


def test_layout_of_others_with_a_flaw_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not a layout: active ranges 0000-0005 do not tile"):
        checked_layout(0, 1, [Segment(SegmentId(0), KeyRange(0, 5))])


def test_layout_of_others_may_come_in_any_order() -> None:
    layout = split(initial_layout(2, 0), 1, 1)
    backwards = list(reversed(layout.segments))
    assert checked_layout(1, 4, backwards, layout.routing) == layout


def test_link_to_a_pruned_segment_is_no_flaw() -> None:
    orphan = replace(
        Segment(SegmentId(3), KEY_SPACE, created_at_epoch=2), parents=(SegmentId(1), SegmentId(2))
    )
    assert checked_layout(2, 4, [orphan]).segment(3).parents == (1, 2)
