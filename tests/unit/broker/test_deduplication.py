from __future__ import annotations

from anabranch.broker.deduplication import Deduplication, Verdict


def test_an_id_is_new_then_undecided_then_a_duplicate() -> None:
    dedup = Deduplication()
    assert dedup.decide("p", 0) is Verdict.NEW
    assert dedup.decide("p", 0) is Verdict.UNDECIDED
    dedup.persisted("p", 0)
    assert dedup.decide("p", 0) is Verdict.DUPLICATE
    assert dedup.decide("other", 0) is Verdict.NEW


def test_a_batch_is_known_by_its_highest_id() -> None:
    dedup = Deduplication()
    assert dedup.decide("p", 1, 5) is Verdict.NEW
    dedup.persisted("p", 1, 5)
    assert dedup.last_sequence_id("p") == 5
    assert dedup.decide("p", 1, 5) is Verdict.DUPLICATE
    assert dedup.decide("p", 6) is Verdict.NEW


def test_a_batch_that_is_partly_stored_is_neither_dropped_nor_stored() -> None:
    dedup = Deduplication()
    dedup.decide("p", 1, 5)
    assert dedup.decide("p", 4, 8) is Verdict.UNDECIDED
    dedup.persisted("p", 1, 5)
    assert dedup.decide("p", 4, 8) is Verdict.OVERLAP
    assert dedup.decide("p", 6, 8) is Verdict.NEW


def test_chunks_of_one_message_are_no_doubles_of_one_another() -> None:
    dedup = Deduplication()
    assert dedup.decide("p", 3, is_last=False) is Verdict.NEW
    dedup.persisted("p", 3, is_last=False)
    assert dedup.last_sequence_id("p") == -1
    assert dedup.decide("p", 3, is_last=False) is Verdict.NEW
    assert dedup.decide("p", 3) is Verdict.NEW
    dedup.persisted("p", 3)
    assert dedup.decide("p", 3, is_last=False) is Verdict.DUPLICATE


def test_ids_below_zero_are_ids() -> None:
    dedup = Deduplication()
    assert dedup.decide("p", -1) is Verdict.NEW
    assert dedup.decide("p", 0) is Verdict.NEW


def test_what_failed_may_be_sent_again_once_nothing_is_on_its_way() -> None:
    dedup = Deduplication()
    dedup.decide("p", 0)
    dedup.decide("p", 1)
    dedup.failed("p")
    assert dedup.decide("p", 1) is Verdict.UNDECIDED
    dedup.persisted("p", 0)
    assert dedup.decide("p", 0) is Verdict.DUPLICATE
    assert dedup.decide("p", 1) is Verdict.NEW


def test_a_producer_of_whom_nothing_was_stored_leaves_no_trace() -> None:
    dedup = Deduplication()
    dedup.decide("p", 0)
    dedup.disconnected("p", 0)
    dedup.failed("p")
    assert len(dedup) == 0
    assert dedup.expire(now_ms=10**9) == []


def test_a_producer_that_is_gone_is_forgotten_after_its_time() -> None:
    dedup = Deduplication(inactivity_ms=100)
    dedup.decide("p", 0)
    dedup.persisted("p", 0)
    dedup.disconnected("p", now_ms=50)
    assert dedup.expire(now_ms=149) == []
    assert dedup.expire(now_ms=150) == ["p"]
    assert dedup.last_sequence_id("p") == -1
    assert len(dedup) == 0


def test_a_producer_with_sends_on_their_way_is_not_forgotten() -> None:
    dedup = Deduplication(inactivity_ms=100)
    dedup.decide("p", 0)
    dedup.disconnected("p", now_ms=0)
    assert dedup.expire(now_ms=1000) == []
    dedup.persisted("p", 0)
    assert dedup.expire(now_ms=1000) == ["p"]


def test_of_too_many_the_longest_gone_is_forgotten_first() -> None:
    dedup = Deduplication(max_producers=1, inactivity_ms=100)
    for now_ms, name in enumerate("abc"):
        dedup.decide(name, 0)
        dedup.persisted(name, 0)
        dedup.disconnected(name, now_ms)
    dedup.connected("b")
    assert dedup.expire(now_ms=3) == ["a", "c"]
    assert dedup.state() == {"b": 0}


def test_the_time_of_those_in_a_snapshot_begins_when_it_is_loaded() -> None:
    dedup = Deduplication(inactivity_ms=100)
    dedup.restore({"p": 7}, now_ms=1000)
    dedup.replay([("p", 9, True), ("q", 4, True), ("r", 4, False)], now_ms=1000)
    assert dedup.state() == {"p": 9, "q": 4}
    assert dedup.expire(now_ms=1099) == []
    assert sorted(dedup.expire(now_ms=1100)) == ["p", "q"]
