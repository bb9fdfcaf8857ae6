from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.topics.key_range import KEY_SPACE, KeyRange
from anabranch.topics.layout_changes import split
from anabranch.topics.layout_flaws import find_flaw
from anabranch.topics.new_layouts import initial_layout
from anabranch.topics.segment import Segment, SegmentId

LAYOUT = split(initial_layout(1, 10), 0, 20)
PARENT, LEFT, RIGHT = LAYOUT.segments


def flaw_with(segment: Segment, **changes: Any) -> str:
    segments = [replace(each, **changes) if each is segment else each for each in LAYOUT.segments]
    return find_flaw(LAYOUT.epoch, LAYOUT.next_segment_id, segments) or "none"


def test_good_layout_has_no_flaw() -> None:
    assert flaw_with(PARENT) == "none"


@pytest.mark.parametrize(
    ("segment", "changes", "flaw"),
    [
        (LEFT, {"id": RIGHT.id}, "appear twice"),
        (LEFT, {"id": SegmentId(3), "parents": ()}, "outside 0 to 2"),
        (LEFT, {"id": SegmentId(-1)}, "outside 0 to 2"),
        (LEFT, {"parents": (PARENT.id, PARENT.id)}, "names an id twice"),
        (LEFT, {"parents": (PARENT.id, SegmentId(7))}, "outside 0 to 2"),
        (LEFT, {"created_at_epoch": 2}, "created at epoch 2 of 1"),
        (LEFT, {"created_at_epoch": -1}, "created at epoch -1"),
        (PARENT, {"sealed_at_epoch": 2}, "sealed at 2 of 1"),
        (PARENT, {"created_at_epoch": 1, "sealed_at_epoch": 0}, "sealed at 0 of 1"),
        (LEFT, {"sealed_at_ms": 3}, "has a time of sealing"),
        (LEFT, {"entry_bucket_splits": (5, 5)}, "do not rise"),
        (LEFT, {"entry_bucket_splits": (0,)}, "do not rise"),
        (LEFT, {"entry_bucket_splits": (0x10000,)}, "do not rise"),
        (LEFT, {"children": (RIGHT.id,)}, "has children"),
        (LEFT, {"parents": ()}, "does not name its parent 0"),
        (PARENT, {"children": (RIGHT.id,)}, "does not name its child 1"),
        (LEFT, {"keys": KEY_SPACE}, "do not tile"),
        (LEFT, {"keys": KeyRange(0, 0x7FFE)}, "do not tile"),
        (PARENT, {"keys": KeyRange(0, 0x7FFF)}, "shares no key with its parent"),
    ],
)
def test_flaw_is_found_and_named(segment: Segment, changes: dict[str, Any], flaw: str) -> None:
    assert flaw in flaw_with(segment, **changes)


def test_cycle_is_a_flaw() -> None:
    """Every cycle has a link from a younger segment back to an older one."""
    older = replace(PARENT, parents=(RIGHT.id,), children=(LEFT.id,))
    left = replace(LEFT, keys=KEY_SPACE)
    younger = replace(RIGHT.sealed((PARENT.id,), 1, 1), parents=())
    flaw = find_flaw(1, 3, [older, left, younger])
    assert flaw == "segment 0 [0000-ffff] sealed is older than its parent 2"


def test_layout_without_active_segments_is_flawed() -> None:
    assert find_flaw(0, 0, []) == "there is no active segment"
    assert find_flaw(1, 3, [PARENT]) == "there is no active segment"


def test_ranges_of_a_regular_topic_are_only_for_show() -> None:
    shown = [
        Segment(SegmentId(index), KeyRange(0, 0), legacy_topic=f"persistent://t/n/x-{index}")
        for index in range(2)
    ]
    assert find_flaw(0, 2, shown) is None
