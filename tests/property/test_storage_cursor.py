"""Laws of cursors, held against sets so plain that they are their own proof."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import InvalidInput
from anabranch.storage.cursor import Cursor, CursorChange, encode_ack_set, parse_ack_set
from anabranch.storage.cursor_format import CursorRecord, encode_record, parse_record
from anabranch.storage.interval_set import IntervalSet
from anabranch.storage.spans import LATEST, Spans
from anabranch.topics.positions import EARLIEST, Position

BATCH = 5  # messages in every entry of the model
WHOLE = (1 << BATCH) - 1


@dataclass
class Model:
    """Every entry with the messages of it that are still unacknowledged."""

    left: dict[Position, int] = field(default_factory=dict)

    def unacked(self) -> list[Position]:
        return [position for position, bits in self.left.items() if bits]


sizes = st.lists(st.integers(0, 6), min_size=0, max_size=4).map(
    lambda counts: [(3 + 2 * n, entries) for n, entries in enumerate(counts)]
)


def entries(sizes: list[tuple[int, int]]) -> list[Position]:
    return [Position(ledger, entry) for ledger, count in sizes for entry in range(count)]


positions = st.builds(Position, st.integers(1, 11), st.integers(-1, 7))
operations = st.lists(
    st.one_of(
        st.tuples(st.just("ack"), st.lists(positions, max_size=5)),
        st.tuples(st.just("batch"), positions, st.integers(0, WHOLE)),
        st.tuples(st.just("cumulative"), positions, st.none() | st.integers(0, WHOLE)),
        st.tuples(st.just("reset"), positions | st.sampled_from([EARLIEST, LATEST])),
        st.tuples(st.just("grow"), st.integers(1, 4)),
        st.tuples(st.just("roll")),
        st.tuples(st.just("trim")),
    ),
    max_size=25,
)


class Run:
    """A cursor, its model, and a follower that only ever sees its changes, as bytes."""

    def __init__(self, sizes: list[tuple[int, int]]) -> None:
        self.sizes = dict(sizes)
        self.model = Model(dict.fromkeys(entries(sizes), WHOLE))
        self.trimmed = EARLIEST
        self.cursor = Cursor.starting_at(EARLIEST, self.spans)
        self.follower = Cursor(EARLIEST)
        self.follow()

    @property
    def spans(self) -> Spans:
        return Spans.of(sorted(self.sizes.items()), self.trimmed)

    def follow(self) -> None:
        change = self.cursor.take_change()
        if change is not None:
            record = parse_record(encode_record(CursorRecord({"s": change})))
            self.follower.apply(record.changes["s"])
            # Twice is once: a change that replaces, or one that merges.
            self.follower.apply(record.changes["s"])

    def ack(self, acked: list[Position]) -> None:
        new = {p for p in acked if self.model.left.get(p)}
        assert self.cursor.acknowledge(acked, self.spans) == len(new)
        for position in new:
            self.model.left[position] = 0

    def batch(self, position: Position, unacked: int) -> None:
        before = self.model.left.get(position, 0)
        done = self.cursor.acknowledge_batch(position, unacked, self.spans)
        if before:
            self.model.left[position] = before & unacked
        assert done == (before != 0 and before & unacked == 0)

    def cumulative(self, position: Position, unacked: int | None) -> None:
        if position > self.spans.last:
            with pytest.raises(InvalidInput, match="behind the last entry"):
                self.cursor.acknowledge_cumulative(position, self.spans, unacked)
            return
        self.cursor.acknowledge_cumulative(position, self.spans, unacked)
        for other in self.model.left:
            if other < position:
                self.model.left[other] = 0
            elif other == position:
                self.model.left[other] &= unacked or 0

    def reset(self, position: Position) -> None:
        self.cursor.reset(position, self.spans)
        for other in self.model.left:
            self.model.left[other] = WHOLE if other >= position else 0

    def grow(self, count: int) -> None:
        if self.sizes:
            ledger = max(self.sizes)
            first = self.sizes[ledger]
            self.sizes[ledger] += count
            new = [Position(ledger, first + n) for n in range(count)]
            self.model.left |= dict.fromkeys(new, WHOLE)

    def roll(self) -> None:
        self.sizes[max(self.sizes, default=1) + 2] = 0

    def trim(self) -> None:
        """Only what is acknowledged goes, as in life."""
        if len(self.sizes) < 2:
            return
        oldest = min(self.sizes)
        theirs = [p for p in self.model.left if p.ledger == oldest]
        if not any(self.model.left[p] for p in theirs):
            self.trimmed = max(self.trimmed, Position(oldest, self.sizes.pop(oldest) - 1))
            for position in theirs:
                del self.model.left[position]

    def check(self) -> None:
        cursor, spans = self.cursor, self.spans
        unacked = self.model.unacked()
        assert cursor.backlog(spans) == len(unacked)
        assert cursor.next_unacked(EARLIEST, spans) == min(unacked, default=None)
        for position, bits in self.model.left.items():
            assert cursor.is_acked(position) == (bits == 0), position
            assert cursor.next_unacked(position, spans) == min(
                (p for p in unacked if p >= position), default=None
            )
            if bits > 0:
                left = cursor.unacked_bits(position)
                assert (WHOLE if left is None else left & WHOLE) == bits
        behind = spans.following(cursor.mark_delete)
        assert behind is None or not cursor.is_acked(behind)
        assert all(p > cursor.mark_delete for p in unacked)


@settings(max_examples=400, deadline=None)
@given(sizes, operations)
def test_cursor_agrees_with_plain_sets(
    sizes: list[tuple[int, int]], operations: list[tuple[object, ...]]
) -> None:
    run = Run(sizes)
    for name, *arguments in operations:
        getattr(run, str(name))(*arguments)
        run.check()


@settings(max_examples=300, deadline=None)
@given(sizes, operations, st.sets(st.integers(0, 24)))
def test_changes_replayed_from_bytes_rebuild_the_cursor(
    sizes: list[tuple[int, int]], operations: list[tuple[object, ...]], flushes: set[int]
) -> None:
    run = Run(sizes)
    for number, (name, *arguments) in enumerate(operations):
        getattr(run, str(name))(*arguments)
        if number in flushes:
            run.follow()
    run.follow()
    assert run.follower.state() == run.cursor.state()
    assert run.cursor.take_change() is None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=30), st.integers(-1, 70))
def test_interval_set_agrees_with_a_set(added: list[tuple[int, int]], bound: int) -> None:
    runs, model = IntervalSet(), set[int]()
    for first, more in added:
        values = set(range(first, first + more + 1))
        assert runs.add(first, first + more) == len(values - model)
        model |= values
    for _ in range(2):
        assert runs.size == len(model)
        assert {n for first, last in runs for n in range(first, last + 1)} == model
        assert all(
            last + 1 < following
            for (_, last), (following, _) in zip(list(runs), list(runs)[1:], strict=False)
        )
        for value in range(72):
            assert (value in runs) == (value in model)
            assert runs.next_absent(value) == next(n for n in range(value, 80) if n not in model)
        runs.discard_through(bound)
        model = {n for n in model if n > bound}


@settings(max_examples=300, deadline=None)
@given(sizes, positions)
def test_spans_agree_with_a_list_of_entries(
    sizes: list[tuple[int, int]], position: Position
) -> None:
    spans, there = Spans.of(sizes), entries(sizes)
    assert spans.total == len(there)
    assert [spans.at(n) for n in range(spans.total)] == there
    assert spans.has(position) == (position in there)
    assert spans.ordinal(position) == sum(p <= position for p in there)
    assert spans.following(position) == min((p for p in there if p > position), default=None)
    assert spans.first_from(position) == min((p for p in there if p >= position), default=None)
    assert spans.preceding(position) == max((p for p in there if p < position), default=spans.start)
    assert spans.last == max(there, default=spans.start)
    assert not [p for p in there if p <= spans.start]


@given(st.integers(0, (1 << 200) - 1))
def test_ack_sets_survive_the_wire(bits: int) -> None:
    words = encode_ack_set(bits)
    assert parse_ack_set(words) == bits
    assert parse_ack_set([word & 0xFFFF_FFFF_FFFF_FFFF for word in words]) == bits


@given(st.binary(max_size=200))
def test_garbage_is_never_a_cursor_record_by_accident_nor_a_crash(data: bytes) -> None:
    try:
        record = parse_record(data)
    except ValueError:
        return
    assert isinstance(record, CursorRecord)
    assert all(isinstance(change, CursorChange) for change in record.changes.values())
