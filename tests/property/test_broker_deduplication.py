"""Deduplication against a broker that remembers every id it ever stored."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from anabranch.broker.deduplication import Deduplication, Verdict
from anabranch.broker.deduplication_snapshot import Snapshot, encode_snapshot, parse_snapshot
from anabranch.topics.positions import Position

# A send: the ids of one batch. Clients number messages upwards, and may resend any earlier batch.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 4)),
        st.tuples(st.just("resend"), st.integers(0, 20)),
        st.tuples(st.just("chunks"), st.integers(2, 4)),
        st.tuples(st.just("cut"), st.integers(1, 3)),
        st.tuples(st.just("commit"), st.integers(1, 5)),
        st.tuples(st.just("fail")),
        st.tuples(st.just("refuse"), st.integers(1, 3)),
        st.tuples(st.just("save")),
        st.tuples(st.just("restart")),
    ),
    max_size=50,
)


class Broker:
    """One producer's side and the log. Ids of a batch: (lowest, highest)."""

    def __init__(self) -> None:
        self.dedup = Deduplication()
        self.next_id = 0
        self.sent: list[tuple[int, int]] = []  # in order: what the client may send again
        self.in_flight: list[tuple[int, int, bool]] = []
        self.log: list[tuple[int, int, bool]] = []
        self.snapshot = encode_snapshot(Snapshot(Position(0, -1), {}))

    def stored(self) -> set[int]:
        return {each for low, high, is_last in self.log for each in range(low, high + 1) if is_last}

    def offer(self, low: int, high: int, *, is_last: bool = True) -> Verdict:
        verdict = self.dedup.decide("p", low, high if high > low else 0, is_last=is_last)
        ids = set(range(low, high + 1))
        pushed = {each for a, b, last in self.in_flight for each in range(a, b + 1) if last}
        if verdict is Verdict.DUPLICATE:
            assert ids <= self.stored(), "dropped what was never stored"
        elif verdict is Verdict.NEW:
            assert not ids & self.stored(), "stored twice"
            assert not ids & pushed, "on its way twice"
            self.in_flight.append((low, high, is_last))
        else:
            assert verdict is Verdict.UNDECIDED
            assert ids & pushed
            assert not ids <= self.stored()
        return verdict

    def send(self, size: int) -> None:
        low, high = self.next_id, self.next_id + size - 1
        if self.unsettled():
            return  # a client sends what failed before anything later
        self.next_id = high + 1
        self.sent.append((low, high))
        assert self.offer(low, high) is Verdict.NEW

    def unsettled(self) -> list[tuple[int, int]]:
        known = self.stored() | {
            each
            for low, high, is_last in self.in_flight
            for each in range(low, high + 1)
            if is_last
        }
        return [(low, high) for low, high in self.sent if low not in known]

    def resend(self, index: int) -> None:
        unsettled = self.unsettled()
        if unsettled:
            for low, high in unsettled:
                was_free = not self.in_flight
                verdict = self.dedup.decide("p", low, high if high > low else 0)
                assert not was_free or verdict is Verdict.NEW, "could never be sent again"
                if verdict is not Verdict.NEW:
                    assert verdict is Verdict.UNDECIDED
                    return  # the client will come back with it
                self.in_flight.append((low, high, True))
        elif self.sent:
            self.offer(*self.sent[index % len(self.sent)])

    def chunks(self, count: int) -> None:
        if self.unsettled():
            return
        low = self.next_id
        self.next_id += 1
        self.sent.append((low, low))
        for chunk in range(count):
            assert self.offer(low, low, is_last=chunk == count - 1) is Verdict.NEW

    def cut(self, count: int) -> None:
        """Chunks whose last one never came; the message is sent whole, later."""
        if not self.unsettled():
            for _ in range(count):
                assert self.offer(self.next_id, self.next_id, is_last=False) is Verdict.NEW

    def commit(self, count: int) -> None:
        done, self.in_flight = self.in_flight[:count], self.in_flight[count:]
        for low, high, is_last in done:
            self.dedup.persisted("p", low, high if high > low else 0, is_last=is_last)
            self.log.append((low, high, is_last))

    def fail(self) -> None:
        for _ in self.in_flight:
            self.dedup.failed("p")
        self.in_flight.clear()

    def refuse(self, size: int) -> None:
        """Storage takes it not even into its queue, while earlier sends may be on their way."""
        before = len(self.in_flight)
        self.send(size)
        if len(self.in_flight) > before:
            self.in_flight.pop()
            self.dedup.failed("p")

    def save(self) -> None:
        self.snapshot = encode_snapshot(
            Snapshot(Position(0, len(self.log) - 1), self.dedup.state())
        )

    def restart(self) -> None:
        """What was on its way may have been stored, or not: here, half of it was."""
        half = self.in_flight[: len(self.in_flight) // 2]
        self.log += half
        self.in_flight.clear()
        loaded = parse_snapshot(self.snapshot)
        self.dedup = Deduplication()
        self.dedup.restore(loaded.producers, now_ms=0)
        behind = self.log[loaded.position.entry + 1 :]
        self.dedup.replay((("p", high, is_last) for _, high, is_last in behind), now_ms=0)


@given(steps)
@example([("cut", 1), ("refuse", 1), ("send", 1)])
@settings(max_examples=300, deadline=None)
def test_no_new_message_is_dropped_and_no_stored_one_admitted(
    steps: list[tuple[object, ...]],
) -> None:
    broker = Broker()
    for name, *arguments in steps:
        getattr(broker, str(name))(*arguments)
        highest = max(broker.stored(), default=-1)
        assert broker.dedup.last_sequence_id("p") == highest
    broker.commit(100)
    broker.resend(0)
    broker.commit(100)
    whole = [each for low, high, last in broker.log if last for each in range(low, high + 1)]
    assert whole == list(range(broker.next_id)), "lost, doubled or out of order"


@given(st.dictionaries(st.text(max_size=8), st.integers(-(2**63), 2**63 - 1), max_size=8))
@settings(max_examples=100, deadline=None)
def test_a_snapshot_is_read_as_it_was_written(producers: dict[str, int]) -> None:
    snapshot = Snapshot(Position(7, 3), producers)
    assert parse_snapshot(encode_snapshot(snapshot)) == snapshot


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.integers(0, 40)), max_size=40),
    st.integers(1, 3),
)
@settings(max_examples=150, deadline=None)
def test_only_those_gone_are_forgotten_and_they_are_bounded(
    events: list[tuple[str, bool, int]], bound: int
) -> None:
    dedup = Deduplication(max_producers=bound, inactivity_ms=50)
    connected: set[str] = set()
    last_seen: dict[str, int] = {}
    now_ms = 0
    for name, connects, passed_ms in events:
        now_ms += passed_ms
        if connects:
            connected.add(name)
            dedup.connected(name)
            dedup.decide(name, now_ms)
            dedup.persisted(name, now_ms)
        elif name in connected:
            connected.discard(name)
            last_seen[name] = now_ms
            dedup.disconnected(name, now_ms)
        for gone in dedup.expire(now_ms):
            assert gone not in connected
            last_seen.pop(gone)
        assert connected <= dedup.state().keys()
        assert len(dedup) <= max(bound, len(connected))
        idle = [each for each in dedup.state() if each not in connected]
        assert all(now_ms - last_seen[each] < 50 for each in idle)
