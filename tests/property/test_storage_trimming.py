"""Laws of what may go."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.storage.spans import Spans
from anabranch.storage.trimming import (
    BacklogAction,
    LedgerInfo,
    LedgerPolicy,
    backlog_bytes,
    decide_backlog_size,
    decide_expiry,
    decide_trim,
)
from anabranch.topics.positions import Position

NOW = 10_000_000
limits = st.integers(-1, 100)
policies = st.builds(
    LedgerPolicy, limits, st.integers(-1, 5000), limits, st.integers(-1, 5000), limits,
    st.sampled_from(BacklogAction),
)  # fmt: skip
positions = st.builds(Position, st.integers(0, 8), st.integers(-1, 12))


@st.composite
def chains(draw: st.DrawFn) -> list[LedgerInfo]:
    """Ledgers as records list them: ids and closing times rise, only the last may be open."""
    closed = []
    at = 1
    for ledger in range(1, draw(st.integers(1, 6))):
        entries = draw(st.integers(0, 10))
        at += draw(st.integers(0, 3_000_000))
        size = entries * draw(st.integers(1, 300)) + (draw(st.integers(0, 50)) if entries else 0)
        closed.append(LedgerInfo(ledger, entries, size, at))
    if draw(st.booleans()):
        entries = draw(st.integers(0, 10))
        closed.append(LedgerInfo(len(closed) + 1, entries, entries * 7))
    return closed


@settings(max_examples=400, deadline=None)
@given(chains(), policies, st.none() | positions)
def test_only_old_closed_acknowledged_ledgers_go(
    ledgers: list[LedgerInfo], policy: LedgerPolicy, floor: Position | None
) -> None:
    going = decide_trim(ledgers, policy, floor, NOW)
    assert going == [info.ledger for info in ledgers[: len(going)]], "the oldest, without a gap"
    kept_bytes = sum(info.size_bytes for info in ledgers)
    for info in ledgers[: len(going)]:
        assert not info.is_open
        assert floor is None or all(Position(info.ledger, n) <= floor for n in range(info.entries))
        is_young = policy.retention_minutes < 0 or (
            NOW - info.closed_at_ms < policy.retention_minutes * 60_000
        )
        is_within = policy.retention_bytes < 0 or kept_bytes <= policy.retention_bytes
        assert info.entries == 0 or not (is_young and is_within)
        kept_bytes -= info.size_bytes


@settings(max_examples=200, deadline=None)
@given(chains(), policies, positions, positions)
def test_acknowledging_more_never_keeps_more(
    ledgers: list[LedgerInfo], policy: LedgerPolicy, one: Position, other: Position
) -> None:
    less, more = sorted([one, other])
    fewer = decide_trim(ledgers, policy, less, NOW)
    assert fewer == decide_trim(ledgers, policy, more, NOW)[: len(fewer)]


@settings(max_examples=200, deadline=None)
@given(chains(), policies, positions)
def test_trimming_twice_is_trimming_once(
    ledgers: list[LedgerInfo], policy: LedgerPolicy, floor: Position
) -> None:
    going = decide_trim(ledgers, policy, floor, NOW)
    assert decide_trim(ledgers[len(going) :], policy, floor, NOW) == []


@settings(max_examples=400, deadline=None)
@given(chains(), policies, positions)
def test_an_eviction_brings_the_backlog_within_its_limit_and_not_far_below(
    ledgers: list[LedgerInfo], policy: LedgerPolicy, mark: Position
) -> None:
    over = decide_backlog_size(ledgers, policy, mark)
    before = backlog_bytes(ledgers, mark)
    assert (over is not None) == (0 <= policy.max_backlog_bytes < before)
    if over is None or over.evict_through is None:
        return
    assert over.action is BacklogAction.EVICT
    assert over.evict_through > mark
    target = int(policy.max_backlog_bytes * 0.9)
    assert backlog_bytes(ledgers, over.evict_through) <= target
    # Two entries fewer would not have done: the estimate rounds within an entry, no more.
    spans = Spans.of([(info.ledger, info.entries) for info in ledgers])
    ordinal = spans.ordinal(over.evict_through) - 3
    if ordinal > spans.ordinal(mark):
        assert backlog_bytes(ledgers, spans.at(ordinal)) > target


@settings(max_examples=200, deadline=None)
@given(chains(), positions, st.none() | positions)
def test_expiry_moves_marks_forward_up_to_the_first_that_lives(
    ledgers: list[LedgerInfo], mark: Position, first_live: Position | None
) -> None:
    spans = Spans.of([(info.ledger, info.entries) for info in ledgers])
    expired = decide_expiry(mark, first_live, spans)
    assert expired >= mark
    if first_live is not None:
        through = max(spans.ordinal(mark), spans.ordinal(first_live.previous()))
        assert spans.ordinal(expired) == through
