from __future__ import annotations

from anabranch.broker.failover import Candidate, Notice, choose_active, elect

A, B, C = Candidate(0, "a", 11), Candidate(0, "b", 12), Candidate(0, "c", 13)


def test_nobody_is_active_where_nobody_is() -> None:
    assert choose_active([], "t") is None


def test_partitions_spread_over_consumers_sorted_by_name() -> None:
    assert [choose_active([C, A, B], "t", partition) for partition in range(4)] == [11, 12, 13, 11]


def test_only_the_best_priority_is_chosen_from() -> None:
    late = Candidate(1, "aa", 14)
    assert {choose_active([B, late, C], "t", partition) for partition in range(6)} == {12, 13}


def test_topics_without_partitions_spread_by_their_names() -> None:
    chosen = [choose_active([A, B, C], f"persistent://t/n/{number}") for number in range(60)]
    assert set(chosen) == {11, 12, 13}


def test_a_consumer_that_goes_moves_only_what_it_had() -> None:
    for topic in (f"t{number}" for number in range(40)):
        before = choose_active([A, B, C], topic)
        if before != 13:
            assert choose_active([B, A], topic) == before


def test_a_change_is_told_to_everybody() -> None:
    election = elect([A, B], "t", 0, active=12, joined=11)
    assert election.active == 11
    assert election.notices == [Notice(11, True), Notice(12, False)]


def test_a_joiner_that_changes_nothing_is_the_only_one_told() -> None:
    assert elect([A, B], "t", 0, active=11, joined=12).notices == [Notice(12, False)]


def test_the_next_one_is_told_when_the_active_one_leaves() -> None:
    election = elect([B], "t", 0, active=11)
    assert (election.active, election.notices) == (12, [Notice(12, True)])


def test_nobody_is_told_when_an_idle_one_leaves() -> None:
    assert elect([A], "t", 0, active=11).notices == []
