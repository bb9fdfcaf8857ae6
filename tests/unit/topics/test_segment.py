from __future__ import annotations

import pytest

from anabranch.topics.key_range import KEY_SPACE
from anabranch.topics.segment import Segment, SegmentId, SegmentState

ONE, TWO, THREE = SegmentId(1), SegmentId(2), SegmentId(3)


def test_sealing_makes_another_value() -> None:
    segment = Segment(ONE, KEY_SPACE, created_at_ms=5)
    sealed = segment.sealed((TWO, THREE), 4, 77)
    assert segment.is_active
    assert sealed.state is SegmentState.SEALED
    assert (sealed.children, sealed.sealed_at_epoch, sealed.sealed_at_ms) == ((TWO, THREE), 4, 77)
    assert (sealed.keys, sealed.created_at_ms) == (segment.keys, segment.created_at_ms)


def test_sealing_twice_is_our_own_mistake() -> None:
    sealed = Segment(ONE, KEY_SPACE).sealed((), 1, 1)
    with pytest.raises(AssertionError, match="sealed already"):
        sealed.sealed((), 2, 2)


def test_links_to_what_is_gone_are_cut_on_both_sides() -> None:
    segment = Segment(TWO, KEY_SPACE, parents=(ONE,), children=(THREE,))
    assert segment.without_links_to({ONE}).parents == ()
    assert segment.without_links_to({THREE}).children == ()
    assert segment.without_links_to({SegmentId(9)}) is segment


def test_bucket_count_is_one_more_than_its_splits() -> None:
    assert Segment(ONE, KEY_SPACE).bucket_count == 1
    assert Segment(ONE, KEY_SPACE, entry_bucket_splits=(0x8000,)).bucket_count == 2


def test_text_of_a_segment_is_for_people() -> None:
    assert str(Segment(ONE, KEY_SPACE)) == "1 [0000-ffff] active"
