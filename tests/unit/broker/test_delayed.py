from __future__ import annotations

from anabranch.broker.delayed import DelayedEntries
from anabranch.topics.positions import Position


def at(entry: int) -> Position:
    return Position(1, entry)


def test_nothing_is_due_before_its_time() -> None:
    delayed = DelayedEntries()
    delayed.add(100, at(1))
    assert delayed.take_due(99, 10) == []
    assert delayed.next_ms() == 100
    assert delayed.take_due(100, 10) == [at(1)]
    assert delayed.next_ms() is None


def test_the_earliest_come_first_and_leave_in_written_order() -> None:
    delayed = DelayedEntries(young_limit=2)
    for entry, time_ms in enumerate([50, 40, 30, 20, 10]):
        delayed.add(time_ms, at(entry))
    assert delayed.take_due(100, 3) == [at(2), at(3), at(4)]
    assert delayed.take_due(100, 3) == [at(0), at(1)]


def test_a_full_tracker_refuses_until_something_came_due() -> None:
    delayed = DelayedEntries(limit=1)
    assert delayed.add(5, at(1))
    assert not delayed.add(1, at(2))
    delayed.take_due(5, 1)
    assert delayed.add(1, at(2))


def test_acknowledged_entries_are_dropped_when_due() -> None:
    delayed = DelayedEntries()
    for entry in range(4):
        delayed.add(1, at(entry))
    assert delayed.take_due(1, 10, lambda position: position.entry % 2 == 0) == [at(1), at(3)]


def test_dropping_forgets_them_before_their_time() -> None:
    delayed = DelayedEntries(young_limit=2)
    for entry in range(7):
        delayed.add(10 + entry, at(entry))
    assert delayed.drop(lambda position: position.entry < 5) == 5
    assert len(delayed) == 2
    assert delayed.next_ms() == 15


def test_clearing_leaves_room_for_all_again() -> None:
    delayed = DelayedEntries(limit=4, young_limit=2)
    for entry in range(4):
        delayed.add(1, at(entry))
    delayed.clear()
    assert len(delayed) == 0
    assert delayed.take_due(10, 10) == []
    assert delayed.add(1, at(1))
