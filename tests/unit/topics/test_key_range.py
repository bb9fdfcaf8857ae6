from __future__ import annotations

import pytest

from anabranch.errors import InvalidInput
from anabranch.topics.key_range import KEY_SPACE, KeyRange, equal_ranges, tiles, union


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (6, 5), (0, 0x10000), (0x10000, 0x10000)])
def test_range_outside_the_key_space_is_refused(start: int, end: int) -> None:
    with pytest.raises(InvalidInput, match=rf"\[{start}, {end}\]"):
        KeyRange(start, end)


def test_both_ends_are_inclusive() -> None:
    keys = KeyRange(0x4000, 0x7FFF)
    assert keys.size == 0x4000
    assert [keys.contains(value) for value in (0x3FFF, 0x4000, 0x7FFF, 0x8000)] == [
        False,
        True,
        True,
        False,
    ]
    assert str(keys) == "4000-7fff"


@pytest.mark.parametrize(
    ("whole", "lower", "upper"),
    [
        ((0, 0xFFFF), (0, 0x7FFF), (0x8000, 0xFFFF)),
        ((0, 0x7FFF), (0, 0x3FFF), (0x4000, 0x7FFF)),
        ((0, 2), (0, 1), (2, 2)),
        ((5, 6), (5, 5), (6, 6)),
    ],
)
def test_halves_meet_at_the_midpoint(
    whole: tuple[int, int], lower: tuple[int, int], upper: tuple[int, int]
) -> None:
    assert KeyRange(*whole).halves() == (KeyRange(*lower), KeyRange(*upper))


def test_one_value_has_no_halves() -> None:
    with pytest.raises(InvalidInput, match="0007-0007 holds one value"):
        KeyRange(7, 7).halves()


def test_points_are_the_first_values_of_further_ranges() -> None:
    assert KeyRange(10, 20).split_at([11, 20]) == (
        KeyRange(10, 10),
        KeyRange(11, 19),
        KeyRange(20, 20),
    )


@pytest.mark.parametrize("points", [[], [10], [21], [15, 15], [16, 12], [9, 15]])
def test_points_that_do_not_rise_inside_the_range_are_refused(points: list[int]) -> None:
    with pytest.raises(InvalidInput, match="split"):
        KeyRange(10, 20).split_at(points)


def test_ranges_that_touch_are_adjacent_either_way_round() -> None:
    left, right = KeyRange(0, 4), KeyRange(5, 9)
    assert left.is_adjacent_to(right)
    assert right.is_adjacent_to(left)
    assert not left.is_adjacent_to(KeyRange(6, 9))
    assert not left.is_adjacent_to(left)


def test_overlap_is_one_shared_value_or_more() -> None:
    assert KeyRange(0, 5).overlaps(KeyRange(5, 9))
    assert not KeyRange(0, 4).overlaps(KeyRange(5, 9))


def test_union_joins_neighbours_in_any_order() -> None:
    assert union([KeyRange(6, 9), KeyRange(0, 2), KeyRange(3, 5)]) == KeyRange(0, 9)


@pytest.mark.parametrize("ranges", [[], [(0, 2), (4, 5)], [(0, 3), (3, 5)], [(0, 3), (0, 3)]])
def test_union_refuses_gaps_and_overlaps(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(InvalidInput):
        union(KeyRange(*each) for each in ranges)


@pytest.mark.parametrize(
    ("count", "texts"),
    [
        (1, ["0000-ffff"]),
        (2, ["0000-7fff", "8000-ffff"]),
        (3, ["0000-5554", "5555-aaa9", "aaaa-ffff"]),
        (4, ["0000-3fff", "4000-7fff", "8000-bfff", "c000-ffff"]),
    ],
)
def test_equal_ranges_give_the_remainder_to_the_last(count: int, texts: list[str]) -> None:
    assert [str(keys) for keys in equal_ranges(count)] == texts


@pytest.mark.parametrize("count", [-1, 0, 0x10001])
def test_equal_ranges_refuse_an_impossible_count(count: int) -> None:
    with pytest.raises(InvalidInput, match=str(count)):
        equal_ranges(count)


def test_key_space_can_be_cut_into_single_values() -> None:
    ranges = equal_ranges(0x10000)
    assert ranges[-1] == KeyRange(0xFFFF, 0xFFFF)
    assert tiles(KEY_SPACE, ranges)


@pytest.mark.parametrize("ranges", [[], [(0, 0xFFFE)], [(0, 5), (5, 0xFFFF)], [(1, 0xFFFF)]])
def test_gap_or_overlap_is_no_tiling(ranges: list[tuple[int, int]]) -> None:
    assert not tiles(KEY_SPACE, [KeyRange(*each) for each in ranges])
