"""Policies by example; the laws are in tests/property/test_storage_trimming.py."""

from __future__ import annotations

from anabranch.storage.spans import Spans
from anabranch.storage.trimming import (
    BacklogAction,
    LedgerInfo,
    LedgerPolicy,
    OverQuota,
    backlog_bytes,
    decide_backlog_age,
    decide_backlog_size,
    decide_expiry,
    decide_trim,
    expiry_cutoff_ms,
)
from anabranch.topics.positions import EARLIEST, Position

MINUTE = 60_000
NOW = 100 * MINUTE
LEDGERS = [
    LedgerInfo(1, 10, 1000, 10 * MINUTE),
    LedgerInfo(2, 10, 1000, 50 * MINUTE),
    LedgerInfo(3, 10, 1000, 90 * MINUTE),
    LedgerInfo(4, 5, 500),
]
EVERYTHING = Position(4, 4)


def test_without_retention_everything_acknowledged_goes() -> None:
    assert decide_trim(LEDGERS, LedgerPolicy(), EVERYTHING, NOW) == [1, 2, 3]
    assert decide_trim(LEDGERS, LedgerPolicy(), Position(2, 9), NOW) == [1, 2]
    assert decide_trim(LEDGERS, LedgerPolicy(), Position(2, 8), NOW) == [1]
    assert decide_trim(LEDGERS, LedgerPolicy(), EARLIEST, NOW) == []


def test_retention_by_time_keeps_the_young() -> None:
    policy = LedgerPolicy(retention_minutes=60, retention_bytes=-1)
    assert decide_trim(LEDGERS, policy, EVERYTHING, NOW) == [1]


def test_retention_by_size_keeps_the_newest() -> None:
    policy = LedgerPolicy(retention_minutes=-1, retention_bytes=1700)
    assert decide_trim(LEDGERS, policy, EVERYTHING, NOW) == [1, 2]


def test_retention_without_limits_keeps_all() -> None:
    policy = LedgerPolicy(retention_minutes=-1, retention_bytes=-1)
    assert decide_trim(LEDGERS, policy, EVERYTHING, NOW) == []


def test_without_cursors_retention_alone_decides() -> None:
    assert decide_trim(LEDGERS, LedgerPolicy(), None, NOW) == [1, 2, 3]
    policy = LedgerPolicy(retention_minutes=60, retention_bytes=-1)
    assert decide_trim(LEDGERS, policy, None, NOW) == [1]


def test_empty_ledgers_never_stand_in_the_way() -> None:
    policy = LedgerPolicy(retention_minutes=-1, retention_bytes=-1)
    ledgers = [LedgerInfo(1, 0, 0, MINUTE), *LEDGERS[1:]]
    assert decide_trim(ledgers, policy, EVERYTHING, NOW) == [1]


def test_time_to_live_moves_a_cursor_forward_only() -> None:
    assert expiry_cutoff_ms(LedgerPolicy(ttl_seconds=60), NOW) == NOW - MINUTE
    assert expiry_cutoff_ms(LedgerPolicy(ttl_seconds=0), NOW) is None
    assert expiry_cutoff_ms(LedgerPolicy(), NOW) is None
    spans = Spans.of([(1, 10), (2, 10)])
    assert decide_expiry(Position(1, 3), Position(2, 0), spans) == Position(1, 9)
    assert decide_expiry(Position(2, 3), Position(2, 0), spans) == Position(2, 3)
    assert decide_expiry(Position(1, 3), None, spans) == Position(2, 9)


def test_a_backlog_is_measured_behind_the_mark() -> None:
    assert backlog_bytes(LEDGERS, EARLIEST) == 3500
    assert backlog_bytes(LEDGERS, Position(2, 4)) == 2000
    assert backlog_bytes(LEDGERS, EVERYTHING) == 0


def test_a_backlog_over_its_size_holds_producers_or_loses_its_oldest() -> None:
    policy = LedgerPolicy(max_backlog_bytes=3000)
    assert decide_backlog_size(LEDGERS, policy, Position(1, 4)) is None
    assert decide_backlog_size(LEDGERS, LedgerPolicy(), EARLIEST) is None
    reason = "backlog of 3500 bytes is over the limit of 3000"
    held = OverQuota(BacklogAction.HOLD_PRODUCERS, reason)
    assert decide_backlog_size(LEDGERS, policy, EARLIEST) == held
    evicting = LedgerPolicy(max_backlog_bytes=3000, backlog_action=BacklogAction.EVICT)
    over = decide_backlog_size(LEDGERS, evicting, EARLIEST)
    assert over is not None
    assert over.evict_through is not None
    assert backlog_bytes(LEDGERS, over.evict_through) <= 2700


def test_a_backlog_over_its_age_says_from_where_to_where() -> None:
    spans = Spans.of([(1, 10), (2, 10)])
    policy = LedgerPolicy(max_backlog_seconds=5, backlog_action=BacklogAction.EVICT)
    over = decide_backlog_age(policy, Position(1, 3), Position(2, 5), spans)
    assert over is not None
    assert over.evict_through == Position(2, 4)
    assert over.reason == "backlog from 1:3 to 2:4 is older than the limit of 5 s"
    assert decide_backlog_age(policy, Position(2, 4), Position(2, 5), spans) is None
