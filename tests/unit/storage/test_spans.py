"""Positions and their places by example; the laws are in tests/property/test_storage_cursor.py."""

from __future__ import annotations

from anabranch.storage.spans import LATEST, Spans
from anabranch.topics.positions import EARLIEST, Position

SPANS = Spans.of([(3, 4), (5, 0), (8, 3)])


def test_entries_are_counted_over_ledgers() -> None:
    assert SPANS.total == 7
    assert SPANS.ordinal(Position(3, 3)) == 4
    assert SPANS.ordinal(Position(8, 0)) == 5
    assert SPANS.at(4) == Position(8, 0)
    assert SPANS.entries_of(5) == SPANS.entries_of(4) == 0


def test_positions_that_do_not_exist_stand_between_their_neighbours() -> None:
    assert SPANS.ordinal(Position(3, 99)) == SPANS.ordinal(Position(6, 0)) == 4
    assert SPANS.following(Position(3, 99)) == Position(8, 0)
    assert SPANS.first_from(Position(4, 0)) == Position(8, 0)
    assert SPANS.following(Position(8, 2)) is None
    assert SPANS.preceding(Position(8, 0)) == Position(3, 3)
    assert SPANS.first_from(EARLIEST) == Position(3, 0)
    assert SPANS.first_from(LATEST) is None


def test_the_last_ledger_grows() -> None:
    assert SPANS.with_last(5).last == Position(8, 4)
    assert Spans.of([(1, 0)]).with_last(1).last == Position(1, 0)


def test_the_end_of_nothing_is_where_the_last_entry_was() -> None:
    assert Spans.of([]).last == EARLIEST
    assert Spans.of([], Position(7, 9)).last == Position(7, 9)
    assert Spans.of([(8, 0)], Position(7, 9)).last == Position(8, -1)
    assert Spans.of([(8, 0)], Position(7, 9)).start == Position(8, -1)
