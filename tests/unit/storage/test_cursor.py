"""Cursors by example; the laws are in tests/property/test_storage_cursor.py."""

from __future__ import annotations

import pytest

from anabranch.errors import InvalidInput
from anabranch.storage import cursor as cursor_module
from anabranch.storage.cursor import MAX_BATCH_WORDS, Cursor, encode_ack_set, parse_ack_set
from anabranch.storage.spans import LATEST, Spans
from anabranch.topics.positions import EARLIEST, Position

SPANS = Spans.of([(3, 4), (5, 0), (8, 3)])


def at(*numbers: int) -> list[Position]:
    return [SPANS.at(number) for number in numbers]


def test_the_mark_moves_over_the_ends_of_ledgers() -> None:
    cursor = Cursor.starting_at(EARLIEST, SPANS)
    assert cursor.acknowledge(at(1, 2, 3, 4), SPANS) == 4
    assert cursor.mark_delete == Position(3, -1)
    assert cursor.acknowledge(at(0), SPANS) == 1
    assert cursor.mark_delete == Position(8, 0)
    assert cursor.run_count == 0
    assert cursor.backlog(SPANS) == 2


def test_acknowledging_twice_is_acknowledging_once() -> None:
    cursor = Cursor.starting_at(EARLIEST, SPANS)
    assert cursor.acknowledge(at(2, 2, 0, 0), SPANS) == 2
    assert cursor.acknowledge(at(0, 2), SPANS) == 0
    assert cursor.backlog(SPANS) == 5


def test_what_does_not_exist_is_passed_over() -> None:
    cursor = Cursor.starting_at(EARLIEST, SPANS)
    nowhere = [Position(1, 0), Position(3, 4), Position(4, 0), Position(5, 0), Position(8, 3)]
    assert cursor.acknowledge([*nowhere, Position(99, 0), *at(6)], SPANS) == 1
    assert cursor.backlog(SPANS) == 6


def test_a_batch_is_done_when_none_of_it_is_left() -> None:
    cursor = Cursor.starting_at(EARLIEST, SPANS)
    (first,) = at(0)
    assert not cursor.acknowledge_batch(first, 0b110, SPANS)
    assert not cursor.acknowledge_batch(first, 0b101, SPANS)
    assert cursor.unacked_bits(first) == 0b100, "each message stays acknowledged"
    assert not cursor.is_acked(first)
    assert cursor.acknowledge_batch(first, 0b011, SPANS)
    assert cursor.mark_delete == first
    assert cursor.unacked_bits(first) is None
    assert not cursor.acknowledge_batch(first, 0b111, SPANS), "too late to undo"


def test_a_cumulative_ack_may_stop_within_a_batch() -> None:
    cursor = Cursor.starting_at(EARLIEST, SPANS)
    (fifth,) = at(4)
    assert cursor.acknowledge_cumulative(fifth, SPANS, 0b100)
    assert cursor.mark_delete == Position(3, 3)
    assert cursor.unacked_bits(fifth) == 0b100
    assert not cursor.acknowledge_cumulative(fifth, SPANS, 0b100)
    assert cursor.acknowledge_cumulative(fifth, SPANS, 0)
    assert cursor.mark_delete == fifth


def test_a_cumulative_ack_behind_the_end_is_refused() -> None:
    cursor = Cursor.starting_at(EARLIEST, SPANS)
    with pytest.raises(InvalidInput, match="8:3, behind the last entry 8:2"):
        cursor.acknowledge_cumulative(Position(8, 3), SPANS)
    assert cursor.backlog(SPANS) == 7


def test_a_cumulative_ack_below_the_mark_changes_nothing() -> None:
    cursor = Cursor.starting_at(LATEST, SPANS)
    cursor.take_change()
    assert not cursor.acknowledge_cumulative(at(3)[0], SPANS)
    assert cursor.take_change() is None


def test_a_cursor_full_of_holes_says_so_and_forgets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cursor_module, "MAX_RUNS", 3)
    spans = Spans.of([(1, 20)])
    cursor = Cursor.starting_at(EARLIEST, spans)
    cursor.acknowledge([Position(1, n) for n in (1, 3, 5)], spans)
    assert not cursor.is_over_limit
    cursor.acknowledge([Position(1, 7)], spans)
    assert cursor.is_over_limit
    assert cursor.backlog(spans) == 16
    cursor.acknowledge([Position(1, 2)], spans)
    assert not cursor.is_over_limit


def test_more_changes_than_are_worth_listing_become_the_whole_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cursor_module, "MAX_FRESH", 3)
    spans = Spans.of([(1, 20)])
    cursor = Cursor.starting_at(EARLIEST, spans)
    cursor.take_change()
    cursor.acknowledge([Position(1, n) for n in (1, 3, 5)], spans)
    change = cursor.take_change()
    assert change is not None
    assert not change.replaces
    cursor.acknowledge([Position(1, n) for n in (7, 9, 11, 13)], spans)
    change = cursor.take_change()
    assert change is not None
    assert change.replaces
    follower = Cursor(EARLIEST)
    follower.apply(change)
    assert follower.state() == cursor.state()


def test_in_order_acknowledgements_leave_only_a_mark_to_write() -> None:
    cursor = Cursor.starting_at(EARLIEST, SPANS)
    cursor.take_change()
    cursor.acknowledge(at(0, 1, 2, 3, 4, 5), SPANS)
    change = cursor.take_change()
    assert change is not None
    assert change.mark_delete == Position(8, 1)
    assert change.runs == {}


def test_ack_sets_of_the_wire_are_words_of_64_bits_least_significant_first() -> None:
    assert parse_ack_set([]) == 0
    assert parse_ack_set([1, 2]) == 1 | 2 << 64
    assert parse_ack_set([-1]) == 2**64 - 1
    assert encode_ack_set(2**64 - 1) == [-1]
    assert encode_ack_set(1 << 70) == [0, 64]
    with pytest.raises(InvalidInput, match=f"at most {MAX_BATCH_WORDS}"):
        parse_ack_set([0] * (MAX_BATCH_WORDS + 1))
