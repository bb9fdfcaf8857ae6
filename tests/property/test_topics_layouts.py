"""Laws of layouts, over random histories of splits, N-way splits, merges and prunes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.topics.buckets import MAX_BUCKETS
from anabranch.topics.layout import Change, Layout
from anabranch.topics.lineage import ancestors, descendants, lineage, merge_depth, parents_first
from anabranch.topics.routing import route
from anabranch.topics.segment import Segment, SegmentId
from tests.unit.topics.layout_walks import History, histories

LAWS = settings(max_examples=60, deadline=None)
ring_values = st.lists(st.integers(0, 0xFFFF), min_size=1, max_size=5)


@LAWS
@given(histories())
def test_active_ranges_tile_the_key_space(history: History) -> None:
    for layout in history.layouts:
        following = 0
        for segment in layout.active:
            assert segment.keys.start == following
            following = segment.keys.end + 1
        assert following == 0x10000


@LAWS
@given(histories(), st.integers(0, 0xFFFFFFFF))
def test_every_key_has_exactly_one_active_segment(history: History, raw: int) -> None:
    for layout in history.layouts:
        value = raw >> 16 if layout.routing.value == "murmur3-high16" else raw & 0xFFFF
        takers = [each for each in layout.segments if each.is_active and each.keys.contains(value)]
        assert [route(layout, raw)] == takers


@LAWS
@given(histories())
def test_epochs_only_grow(history: History) -> None:
    for (before, after), change in zip(pairwise(history.layouts), history.changes, strict=True):
        assert after.epoch - before.epoch == (1 if isinstance(change, Change) else len(change))


@LAWS
@given(histories())
def test_ids_are_never_given_twice(history: History) -> None:
    ids = [segment.id for segment in history.born]
    assert ids == list(range(history.last.next_segment_id))
    for layout in history.layouts:
        assert all(segment.id < layout.next_segment_id for segment in layout.segments)


@LAWS
@given(histories())
def test_segments_form_no_cycle(history: History) -> None:
    for layout in history.layouts:
        waiting = {segment.id: set(segment.parents) for segment in layout.segments}
        while waiting:
            ready = {each for each, parents in waiting.items() if not parents & set(waiting)}
            assert ready, f"cycle among {sorted(waiting)}"
            waiting = {each: parents for each, parents in waiting.items() if each not in ready}


@LAWS
@given(histories())
def test_both_sides_of_every_link_know_it(history: History) -> None:
    for layout in history.layouts:
        down = {(each.id, child) for each in layout.segments for child in each.children}
        up = {(parent, each.id) for each in layout.segments for parent in each.parents}
        assert down == up


@LAWS
@given(histories(), ring_values)
def test_segments_of_a_key_follow_one_another(history: History, values: list[int]) -> None:
    """One ends in the epoch in which the next begins, and each is a parent of its successor."""
    born = [segment for segment in history.born if not segment.is_legacy]
    ends = {
        parent: change.epoch
        for change in history.changes
        if isinstance(change, Change)
        for parent in change.parents
    }
    for value in values:
        path = [segment for segment in born if segment.keys.contains(value)]
        for before, after in pairwise(path):
            assert before.id in after.parents
            assert ends[before.id] == after.created_at_epoch
        assert history.last.active_at(value) == history.last.segment(path[-1].id)


@LAWS
@given(histories())
def test_prune_touches_nothing_that_takes_writes(history: History) -> None:
    for (before, after), change in zip(pairwise(history.layouts), history.changes, strict=True):
        if isinstance(change, tuple):
            assert [(each.id, each.keys) for each in before.active] == [
                (each.id, each.keys) for each in after.active
            ]
            assert {each.id for each in before.segments} - {each.id for each in after.segments} == {
                each.id for each in change
            }


@LAWS
@given(histories())
def test_links_of_pruned_segments_can_be_found_again(history: History) -> None:
    """Each is in the layout or in the record of whichever end was pruned first."""
    made = {(parent, each.id) for each in history.born for parent in each.parents}
    kept: set[tuple[SegmentId, SegmentId]] = set()
    for segment in (*history.last.segments, *history.pruned):
        kept |= {(parent, segment.id) for parent in segment.parents}
        kept |= {(segment.id, child) for child in segment.children}
    assert kept == made


@LAWS
@given(histories())
def test_sealing_and_birth_share_one_time(history: History) -> None:
    for layout in history.layouts:
        for segment in layout.segments:
            for each in segment.children:
                child = layout.segment(each)
                assert segment.sealed_at_ms == child.created_at_ms
                assert segment.sealed_at_epoch == child.created_at_epoch


@LAWS
@given(histories())
def test_every_segment_has_a_bucket_and_none_has_too_many(history: History) -> None:
    for segment in history.born:
        assert 1 <= segment.bucket_count <= MAX_BUCKETS
        if not history.last.routing.has_buckets:
            assert segment.bucket_count == 1


@LAWS
@given(histories())
def test_merge_depth_equals_its_slow_definition(history: History) -> None:
    layout = history.last
    for segment in layout.segments:
        before = slow_ancestors(layout, segment)
        merges = [each for each in {segment.id} | before if len(layout.segment(each).parents) >= 2]
        assert merge_depth(layout, segment.id) == len(merges)


@LAWS
@given(histories())
def test_lineage_looks_the_same_from_both_ends(history: History) -> None:
    layout = history.last
    for segment in layout.segments:
        before = slow_ancestors(layout, segment)
        assert ancestors(layout, segment.id) == before
        assert all(segment.id in descendants(layout, each) for each in before)
        assert lineage(layout, segment.id) >= before | {segment.id}


@LAWS
@given(histories())
def test_reading_order_has_every_parent_before_its_children(history: History) -> None:
    seen: set[SegmentId] = set()
    for segment in parents_first(history.last):
        assert seen.issuperset(segment.parents)
        seen.add(segment.id)


@LAWS
@given(histories())
def test_applied_change_is_recognised_and_never_applied_again(history: History) -> None:
    for at, change in enumerate(history.changes):
        if isinstance(change, Change):
            assert not history.layouts[at].has_applied(change)
            assert all(layout.has_applied(change) for layout in history.layouts[at + 1 :])


def slow_ancestors(layout: Layout, segment: Segment) -> set[SegmentId]:
    """Grown until it stops growing."""
    found = set(segment.parents)
    while True:
        grown = found | {parent for each in found for parent in layout.segment(each).parents}
        if grown == found:
            return found
        found = grown
