from __future__ import annotations

import pytest

from anabranch.errors import NotFound
from anabranch.topics.layout import Layout
from anabranch.topics.layout_changes import merge, split
from anabranch.topics.lineage import (
    ancestors,
    descendants,
    lineage,
    merge_depth,
    parents_first,
    present_parents,
)
from anabranch.topics.new_layouts import initial_layout


def diamond() -> Layout:
    """0 splits into 1 and 2, they merge into 3, it splits into 4 and 5."""
    layout = merge(split(initial_layout(1, 0), 0, 1), (1, 2), 2)
    return split(layout, 3, 3)


def test_ancestors_are_all_that_came_before() -> None:
    assert ancestors(diamond(), 4) == {0, 1, 2, 3}
    assert ancestors(diamond(), 0) == set()


def test_descendants_are_all_that_came_after() -> None:
    assert descendants(diamond(), 1) == {3, 4, 5}
    assert descendants(diamond(), 5) == set()


def test_lineage_is_both_and_the_segment_itself() -> None:
    assert lineage(diamond(), 1) == {0, 1, 3, 4, 5}


def test_missing_segment_has_no_lineage() -> None:
    with pytest.raises(NotFound, match="no segment 8"):
        ancestors(diamond(), 8)


def test_merge_depth_counts_each_merge_once() -> None:
    layout = diamond()
    assert [merge_depth(layout, each) for each in (0, 1, 3, 4, 5)] == [0, 0, 1, 1, 1]
    again = merge(layout, (4, 5), 4)
    assert merge_depth(again, 6) == 2


def test_pruning_shrinks_the_merge_depth() -> None:
    pruned, _ = diamond().prune([3])
    assert merge_depth(pruned, 4) == 0
    one_parent_left, _ = diamond().prune([1])
    assert merge_depth(one_parent_left, 4) == 0


def test_pruned_parents_are_no_longer_waited_for() -> None:
    layout = diamond()
    assert [segment.id for segment in present_parents(layout, 3)] == [1, 2]
    pruned, _ = layout.prune([1])
    assert [segment.id for segment in present_parents(pruned, 3)] == [2]


def test_parents_come_first_in_reading_order() -> None:
    order = [segment.id for segment in parents_first(diamond())]
    assert order == [0, 1, 2, 3, 4, 5]
