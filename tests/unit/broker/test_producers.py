from __future__ import annotations

import pytest

from anabranch.broker import producers as module
from anabranch.broker.producers import (
    Accepted,
    AccessMode,
    Contested,
    Producer,
    ProducerRoster,
    Refusal,
    Refused,
    Waiting,
    busy_name,
)

SHARED = AccessMode.SHARED
EXCLUSIVE = AccessMode.EXCLUSIVE
WAIT = AccessMode.WAIT_FOR_EXCLUSIVE
FENCING = AccessMode.EXCLUSIVE_WITH_FENCING


def producer(
    name: str, mode: AccessMode = SHARED, *, topic_epoch: int | None = None, epoch: int = 0
) -> Producer:
    return Producer(ord(name[0]), 1, name, mode, epoch, topic_epoch)


def roster(*present: Producer, topic_epoch: int | None = None) -> ProducerRoster:
    made = ProducerRoster("t", topic_epoch=topic_epoch)
    for each in present:
        assert isinstance(made.admit(each), Accepted)
    return made


def test_shared_producers_have_no_topic_epoch() -> None:
    decision = roster().admit(producer("a"))
    assert decision == Accepted(producer("a"))


def test_the_first_holder_gets_epoch_zero_and_each_next_one_more() -> None:
    topic = roster(producer("a", EXCLUSIVE))
    assert topic.topic_epoch == 0
    topic.remove(ord("a"), 1)
    decision = topic.admit(producer("b", EXCLUSIVE))
    assert isinstance(decision, Accepted)
    assert (decision.producer.topic_epoch, decision.is_epoch_new) == (1, True)


def test_a_holder_that_comes_back_keeps_its_epoch() -> None:
    decision = roster(topic_epoch=4).admit(producer("a", EXCLUSIVE, topic_epoch=4))
    assert isinstance(decision, Accepted)
    assert (decision.producer.topic_epoch, decision.is_epoch_new) == (4, False)


@pytest.mark.parametrize("mode", [EXCLUSIVE, WAIT, FENCING])
def test_a_holder_of_an_older_epoch_is_fenced_and_harms_nobody(mode: AccessMode) -> None:
    topic = roster(topic_epoch=4)
    decision = topic.admit(producer("a", mode, topic_epoch=3))
    assert isinstance(decision, Refused)
    assert decision.kind is Refusal.FENCED
    assert "epoch 3" in decision.message
    assert "epoch 4" in decision.message
    assert topic.producers == ()


@pytest.mark.parametrize(("mode", "kind"), [(SHARED, Refusal.BUSY), (EXCLUSIVE, Refusal.FENCED)])
def test_nobody_joins_an_exclusive_holder(mode: AccessMode, kind: Refusal) -> None:
    decision = roster(producer("a", EXCLUSIVE)).admit(producer("b", mode))
    assert isinstance(decision, Refused)
    assert decision.kind is kind
    assert "'a'" in decision.message


def test_shared_producers_keep_an_exclusive_one_out() -> None:
    decision = roster(producer("a")).admit(producer("b", EXCLUSIVE))
    assert isinstance(decision, Refused)
    assert decision.kind is Refusal.FENCED


def test_waiters_get_the_topic_in_the_order_in_which_they_came() -> None:
    topic = roster(producer("a"))
    assert topic.admit(producer("b", WAIT)) == Waiting(producer("b", WAIT))
    assert topic.admit(producer("c", WAIT)) == Waiting(producer("c", WAIT))
    late = topic.admit(producer("d"))
    assert isinstance(late, Refused)
    assert late.kind is Refusal.BUSY
    promoted = topic.remove(ord("a"), 1).promoted
    assert promoted is not None
    assert (promoted.producer.name, promoted.producer.topic_epoch) == ("b", 0)
    promoted = topic.remove(ord("b"), 1).promoted
    assert promoted is not None
    assert (promoted.producer.name, promoted.producer.topic_epoch) == ("c", 1)


def test_a_waiter_whose_claim_grew_old_is_refused_when_its_turn_comes() -> None:
    topic = roster(producer("a", EXCLUSIVE, topic_epoch=1), topic_epoch=1)
    topic.admit(producer("b", WAIT))
    topic.admit(producer("c", WAIT, topic_epoch=1))
    topic.remove(ord("a"), 1)  # b holds it at epoch 2
    removed = topic.remove(ord("b"), 1)
    assert removed.promoted is None
    assert [each.name for each, _ in removed.refused] == ["c"]
    assert topic.waiters == ()


def test_fencing_closes_producers_and_refuses_waiters() -> None:
    topic = roster(producer("a"), producer("b"))
    topic.admit(producer("w", WAIT))
    decision = topic.admit(producer("x", FENCING))
    assert isinstance(decision, Accepted)
    assert [each.name for each in decision.closed] == ["a", "b"]
    assert [each.name for each in decision.fenced] == ["w"]
    assert topic.holder == decision.producer


def test_fencing_takes_a_name_from_whoever_has_it() -> None:
    topic = roster(Producer(1, 1, "same"))
    decision = topic.admit(Producer(2, 1, "same", FENCING))
    assert isinstance(decision, Accepted)
    assert [each.connection for each in decision.closed] == [1]


def test_a_name_in_use_is_for_the_caller_to_clear_up() -> None:
    topic = roster(Producer(1, 1, "same"))
    decision = topic.admit(Producer(2, 1, "same"))
    assert decision == Contested(Producer(1, 1, "same"))
    assert busy_name("t", decision.holder).kind is Refusal.BUSY
    topic.remove(1, 1)
    assert isinstance(topic.admit(Producer(2, 1, "same")), Accepted)


def test_a_later_attempt_replaces_itself_in_front_of_those_who_wait() -> None:
    topic = roster(producer("a", EXCLUSIVE))
    topic.admit(producer("w", WAIT))
    decision = topic.admit(producer("a", EXCLUSIVE, epoch=1, topic_epoch=0))
    assert isinstance(decision, Accepted)
    assert (decision.producer.epoch, decision.producer.topic_epoch) == (1, 0)
    assert not decision.closed
    assert [each.name for each in topic.waiters] == ["w"]


def test_a_waiter_that_tries_again_keeps_its_place() -> None:
    topic = roster(producer("a"))
    topic.admit(producer("v", WAIT))
    topic.admit(producer("w", WAIT))
    assert isinstance(topic.admit(producer("v", WAIT, epoch=1)), Waiting)
    assert [(each.name, each.epoch) for each in topic.waiters] == [("v", 1), ("w", 0)]


def test_the_same_request_twice_gets_the_same_answer() -> None:
    topic = roster(producer("a", EXCLUSIVE))
    decision = topic.admit(producer("a", EXCLUSIVE))
    assert isinstance(decision, Accepted)
    assert decision.producer.topic_epoch == 0
    assert not decision.is_epoch_new


def test_a_later_attempt_cannot_change_its_mode() -> None:
    decision = roster(producer("a")).admit(producer("a", EXCLUSIVE, epoch=1))
    assert isinstance(decision, Refused)
    assert "close it first" in decision.message


def test_waiters_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITERS", 1)
    topic = roster(producer("a"))
    topic.admit(producer("v", WAIT))
    decision = topic.admit(producer("w", WAIT))
    assert isinstance(decision, Refused)
    assert decision.kind is Refusal.BUSY


def test_clearing_returns_everybody_and_leaves_nobody() -> None:
    topic = roster(producer("a"))
    topic.admit(producer("w", WAIT))
    assert [each.name for each in topic.clear()] == ["a", "w"]
    assert isinstance(topic.admit(producer("a")), Accepted)


def test_removing_a_stranger_changes_nothing() -> None:
    topic = roster(producer("a", EXCLUSIVE))
    assert topic.remove(99, 99).promoted is None
    assert topic.holder is not None
