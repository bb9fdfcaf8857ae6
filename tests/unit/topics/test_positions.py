from __future__ import annotations

from anabranch.topics.positions import EARLIEST, Position


def test_positions_are_ordered_as_entries_were_written() -> None:
    assert EARLIEST < Position(0, -1) < Position(0, 0) < Position(0, 9) < Position(1, 0)


def test_neighbours_are_in_the_same_ledger() -> None:
    assert Position(3, 4).next() == Position(3, 5)
    assert Position(3, 0).previous() == Position(3, -1)


def test_text_is_ledger_and_entry() -> None:
    assert str(Position(12, 1199)) == "12:1199"
