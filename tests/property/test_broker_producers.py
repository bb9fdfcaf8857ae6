"""Access modes against a model: at most one holder, epochs only grow, nobody is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.broker.producers import (
    Accepted,
    AccessMode,
    Contested,
    Producer,
    ProducerRoster,
    Refusal,
    Refused,
    Removed,
    Waiting,
)

modes = st.sampled_from(AccessMode)
producers = st.builds(
    Producer,
    connection=st.integers(0, 2),
    id=st.integers(0, 1),
    name=st.sampled_from(["a", "b", "c", "d"]),
    mode=modes,
    epoch=st.integers(0, 2),
    topic_epoch=st.none() | st.integers(0, 6),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), producers),
        st.tuples(st.just("remove"), st.integers(0, 2), st.integers(0, 1)),
    ),
    max_size=40,
)


class Model:
    """Who is told what, as clients would see it."""

    def __init__(self) -> None:
        self.ready: dict[tuple[int, int], Producer] = {}
        self.waiting: list[Producer] = []
        self.highest_epoch = -1

    def is_known(self, producer: Producer) -> bool:
        return producer.key in self.ready or any(each.key == producer.key for each in self.waiting)

    def accept(self, accepted: Accepted) -> None:
        for closed in accepted.closed:
            assert self.ready.pop(closed.key) == closed
        for fenced in accepted.fenced:
            self.waiting.remove(fenced)
        producer = accepted.producer
        if producer.mode is not AccessMode.SHARED:
            assert producer.topic_epoch is not None
            assert producer.topic_epoch >= self.highest_epoch
            assert accepted.is_epoch_new == (producer.topic_epoch > self.highest_epoch)
            self.highest_epoch = producer.topic_epoch
        self.ready[producer.key] = producer

    def wait(self, producer: Producer) -> None:
        places = [place for place, each in enumerate(self.waiting) if each.key == producer.key]
        if places:
            self.waiting[places[0]] = producer
        else:
            self.waiting.append(producer)

    def remove(self, key: tuple[int, int], removed: Removed) -> None:
        self.ready.pop(key, None)
        self.waiting = [each for each in self.waiting if each.key != key]
        for producer, refused in removed.refused:
            assert refused.kind is Refusal.FENCED
            assert self.waiting.pop(0) == producer
        if removed.promoted is not None:
            assert self.waiting.pop(0).key == removed.promoted.producer.key
            self.accept(removed.promoted)


def expected(model: Model, producer: Producer) -> type | Refusal:
    """The table of the module, for one that nobody knows yet."""
    holder = any(each.mode is not AccessMode.SHARED for each in model.ready.values())
    is_outdated = producer.topic_epoch is not None and producer.topic_epoch < model.highest_epoch
    if producer.mode is AccessMode.SHARED:
        return Refusal.BUSY if holder or model.waiting else Accepted
    if is_outdated:
        return Refusal.FENCED
    if producer.mode is AccessMode.EXCLUSIVE:
        return Refusal.FENCED if model.ready or model.waiting else Accepted
    if producer.mode is AccessMode.WAIT_FOR_EXCLUSIVE:
        return Waiting if model.ready or model.waiting else Accepted
    return Accepted


def admit(roster: ProducerRoster, model: Model, producer: Producer) -> None:
    was_known = model.is_known(producer)
    others = {
        each.name for each in [*model.ready.values(), *model.waiting] if each.key != producer.key
    }
    decision = roster.admit(producer)
    if isinstance(decision, Contested):
        assert producer.name in others
        assert decision.holder.name == producer.name
        assert decision.holder.key != producer.key
        assert was_known or producer.mode is not AccessMode.EXCLUSIVE_WITH_FENCING
        return
    if not was_known:
        wanted = expected(model, producer)
        got = decision.kind if isinstance(decision, Refused) else type(decision)
        assert got == wanted
    match decision:
        case Accepted() if decision.producer == model.ready.get(producer.key):
            assert not decision.is_epoch_new
            assert not decision.closed
        case Accepted():
            model.accept(decision)
        case Waiting():
            model.wait(decision.producer)
        case Refused():
            assert decision.message


@given(steps)
@settings(max_examples=400, deadline=None)
def test_access_modes_follow_their_table(steps: list[tuple[object, ...]]) -> None:
    roster, model = ProducerRoster("t"), Model()
    for step in steps:
        match step:
            case ("admit", Producer() as producer):
                admit(roster, model, producer)
            case (_, int() as connection, int() as producer_id):
                key = connection, producer_id
                model.remove(key, roster.remove(connection, producer_id))
        assert roster.producers == tuple(model.ready.values()) or set(roster.producers) == set(
            model.ready.values()
        )
        assert roster.waiters == tuple(model.waiting)
        exclusive = [each for each in roster.producers if each.mode is not AccessMode.SHARED]
        assert not exclusive or (len(roster.producers) == 1 and roster.holder == exclusive[0])
        # Nobody waits for a topic that is free.
        assert roster.producers or not roster.waiters
        names = [each.name for each in roster.producers + roster.waiters]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("limit", [1, 3])
def test_the_limit_counts_producers_that_are_there_now(limit: int) -> None:
    roster = ProducerRoster("t", max_producers=limit)
    for number in range(limit):
        assert isinstance(roster.admit(Producer(number, 0, f"p{number}")), Accepted)
    refused = roster.admit(Producer(9, 0, "late"))
    assert isinstance(refused, Refused)
    assert refused.kind is Refusal.BUSY
    assert str(limit) in refused.message
    # A later attempt of one that is there takes no further place.
    assert isinstance(roster.admit(Producer(0, 0, "p0", epoch=1)), Accepted)
    roster.remove(0, 0)
    assert isinstance(roster.admit(Producer(9, 0, "late")), Accepted)
