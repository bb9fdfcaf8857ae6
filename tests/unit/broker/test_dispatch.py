from __future__ import annotations

from anabranch.broker.dispatch import Grant, Plan, Rotation, plan_keyed, plan_single
from anabranch.broker.receivers import Receiver


def consumers(*permits: int, priority: int = 0) -> list[Receiver]:
    made = []
    for number, count in enumerate(permits, 1):
        made.append(Receiver(number, f"c{number}", priority=priority))
        made[-1].allow(count)
    return made


def served(plan: Plan) -> list[tuple[int, int]]:
    return [(grant.consumer, grant.messages) for grant in plan.grants]


def test_one_consumer_gets_entries_while_it_has_permits_left() -> None:
    (one,) = consumers(5)
    assert plan_single(one, [2, 2, 2, 2]) == Plan([Grant(1, range(3), 6)], range(3, 4))


def test_without_a_consumer_everything_is_left() -> None:
    assert plan_single(None, [1, 1]) == Plan([], range(2))


def test_a_budget_bounds_what_one_consumer_gets() -> None:
    (one,) = consumers(100)
    assert served(plan_single(one, [1] * 10, budget=4)) == [(1, 4)]


def test_shared_consumers_take_turns() -> None:
    plan = Rotation().plan(consumers(100, 100), [1] * 80, turn_messages=20)
    assert served(plan) == [(1, 20), (2, 20), (1, 20), (2, 20)]


def test_messages_that_trickle_in_go_round_one_by_one() -> None:
    rotation, both = Rotation(), consumers(100, 100)
    assert [served(rotation.plan(both, [1]))[0][0] for _ in range(4)] == [1, 2, 1, 2]


def test_a_turn_that_a_batch_cut_short_is_finished_first() -> None:
    rotation, both = Rotation(), consumers(100, 100)
    assert served(rotation.plan(both, [1] * 3)) == [(1, 2), (2, 1)]
    assert served(rotation.plan(both, [1] * 3)) == [(2, 1), (1, 2)]


def test_a_consumer_without_room_is_passed_over() -> None:
    plan = Rotation().plan(consumers(0, 3), [1] * 5)
    assert served(plan) == [(2, 3)]
    assert plan.rest == range(3, 5)


def test_the_rotation_goes_on_behind_a_consumer_that_left() -> None:
    rotation, three = Rotation(), consumers(9, 9, 9)
    rotation.plan(three[:2], [1])
    rotation.plan(three[:2], [1])
    assert served(rotation.plan([three[0], three[2]], [1])) == [(3, 1)]


def test_the_second_priority_is_served_when_the_first_is_full() -> None:
    first, second = consumers(2, 9)
    second.priority = 1
    assert served(Rotation().plan([second, first], [1] * 5)) == [(1, 2), (2, 3)]


def test_an_entry_without_a_ready_owner_makes_its_slot_wait_and_no_other() -> None:
    owners = {10: 1, 20: 2, 30: None}
    plan = plan_keyed(
        consumers(9, 1), owners.__getitem__, {}, [20, 10, 20, 30, 10], [1, 1, 1, 1, 1]
    )
    assert plan == Plan([Grant(2, [0], 1), Grant(1, [1, 4], 2)], [2, 3])


def test_a_slot_held_by_another_consumer_waits() -> None:
    plan = plan_keyed(consumers(9, 9), lambda slot: 1, {7: 2, 8: 1}, [7, 8, 7], [1, 1, 1])
    assert plan == Plan([Grant(1, [1], 1)], [0, 2])
