"""Laws of what waits: the redelivery queue, delayed entries, and the rate limits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.broker.delayed import DelayedEntries
from anabranch.broker.rate_limit import RateLimit, RatePolicy
from anabranch.broker.rates import SLOT_SECONDS, SLOTS, RateMeter
from anabranch.broker.redelivery import RedeliveryQueue
from anabranch.topics.positions import Position

positions = st.builds(Position, st.integers(1, 3), st.integers(0, 15))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.lists(positions, max_size=90)),
            st.tuples(st.just("discard"), positions),
            st.tuples(st.just("through"), positions),
        ),
        max_size=15,
    ),
    st.integers(1, 20),
    st.sets(st.integers(0, 4)),
)
@settings(max_examples=200, deadline=None)
def test_the_queue_is_a_sorted_set_that_can_be_looked_at_by_slot(
    steps: list[tuple[str, object]], limit: int, open_slots: set[int]
) -> None:
    def slot_of(position: Position) -> int:
        return (position.ledger * 7 + position.entry) % 5

    queue, model = RedeliveryQueue(), set[Position]()
    for name, argument in steps:
        if isinstance(argument, list):
            queue.add_many((each, slot_of(each)) for each in argument)
            model |= set(argument)
        elif isinstance(argument, Position) and name == "discard":
            assert queue.discard(argument) == (argument in model)
            model.discard(argument)
        elif isinstance(argument, Position):
            queue.discard_through(argument)
            model = {each for each in model if each > argument}
        assert len(queue) == len(model)
        assert queue.slots() == {slot_of(each) for each in model}
        assert queue.first(limit) == sorted(model)[:limit]
        in_open = sorted(each for each in model if slot_of(each) in open_slots)
        assert queue.first(limit, open_slots.__contains__) == in_open[:limit]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 60), positions),
            st.tuples(st.just("due"), st.integers(0, 70), st.integers(0, 12)),
            st.tuples(st.just("drop"), st.integers(1, 3), st.integers(0, 15)),
        ),
        max_size=80,
    )
)
@settings(max_examples=200, deadline=None)
def test_a_delayed_entry_comes_out_once_and_never_early(
    steps: list[tuple[object, ...]],
) -> None:
    delayed = DelayedEntries(limit=25, young_limit=4)
    model: list[tuple[int, Position]] = []
    for step in steps:
        match step:
            case ("add", int() as at_ms, Position() as position):
                assert delayed.add(at_ms, position) == (len(model) < 25)
                if len(model) < 25:
                    model.append((at_ms, position))
            case ("due", int() as now_ms, int() as limit):
                model.sort()
                due = [each for each in model if each[0] <= now_ms][:limit]
                assert delayed.take_due(now_ms, limit) == sorted(each for _, each in due)
                model = model[len(due) :]
            case (_, int() as ledger, int() as entry):
                mark = Position(ledger, entry)
                kept = [each for each in model if each[1] > mark]
                assert delayed.drop(mark.__ge__) == len(model) - len(kept)
                model = kept
        assert len(delayed) == len(model)
        assert delayed.next_ms() == min((at_ms for at_ms, _ in model), default=None)


@given(
    st.integers(1, 50),
    st.integers(1, 500),
    st.sampled_from([0.5, 1.0, 10.0]),
    st.lists(
        st.tuples(st.floats(0, 3), st.integers(1, 20), st.integers(1, 200)),
        min_size=1,
        max_size=60,
    ),
)
@settings(max_examples=200, deadline=None)
def test_no_more_passes_than_the_rate_and_one_burst(
    messages: int, size_bytes: int, period: float, asks: list[tuple[float, int, int]]
) -> None:
    limit = RateLimit(RatePolicy(messages, size_bytes, period), now_seconds=100.0)
    now = 100.0
    passed: list[tuple[float, int, int]] = []
    for step, count, size in asks:
        now += step
        wait = limit.decide(now, count, size)
        if wait == 0.0:
            passed.append((now, count, size))
        else:
            # Who waits as long as it was told may pass.
            now += wait * 1.000001
            assert limit.decide(now, count, size) == 0.0
            passed.append((now, count, size))
    for index, (start, _, _) in enumerate(passed):
        span = now - start
        window = passed[index:]
        assert sum(c for _, c, _ in window[:-1]) <= messages * (span / period + 1) + 1e-6
        assert sum(s for _, _, s in window[:-1]) <= size_bytes * (span / period + 1) + 1e-6


@given(
    st.lists(st.tuples(st.floats(0, 12), st.integers(0, 50)), max_size=60),
    st.floats(0, 200),
)
@settings(max_examples=200, deadline=None)
def test_a_rate_counts_all_of_the_last_minute_and_nothing_older_than_a_slot_more(
    marks: list[tuple[float, int]], silence: float
) -> None:
    now = 1000.0
    meter = RateMeter(now)
    seen: list[tuple[float, int]] = []
    for step, count in marks:
        now += step
        meter.record(now, count, 10 * count)
        seen.append((now, count))
    now += silence
    rate = meter.rate(now)
    window = SLOTS * SLOT_SECONDS
    surely = sum(count for at, count in seen if now - at < window - 1e-6)
    perhaps = sum(count for at, count in seen if now - at <= window + SLOT_SECONDS + 1e-6)
    age = now - 1000.0
    assert rate.messages * max(1.0, min(age, window + SLOT_SECONDS)) >= surely - 1e-6
    assert rate.messages * max(1.0, min(age, window)) <= perhaps + 1e-6
    assert abs(rate.bytes - 10 * rate.messages) < 1e-6
    assert meter.total_messages == sum(count for _, count in seen)
