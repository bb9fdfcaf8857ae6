"""Laws of dispatch plans: nothing twice, nothing lost, nobody overdrawn, nobody favoured."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.broker.dispatch import NO_BUDGET, Plan, Rotation, plan_keyed, plan_single
from anabranch.broker.receivers import Receiver

counts_lists = st.lists(st.integers(1, 30), max_size=60)
budgets = st.just(NO_BUDGET) | st.integers(0, 200)


@st.composite
def receiver_lists(draw: st.DrawFn, min_size: int = 0) -> list[Receiver]:
    receivers = []
    for consumer in range(draw(st.integers(min_size, 5))):
        receiver = Receiver(
            consumer,
            f"c{consumer}",
            priority=draw(st.integers(0, 2)),
            unacked_limit=draw(st.sampled_from([0, 10, 1000])),
        )
        receiver.allow(draw(st.integers(0, 100)))
        receiver.deliver(draw(st.integers(0, 20)))
        receiver.is_paused = draw(st.booleans()) and draw(st.booleans())
        receivers.append(receiver)
    return receivers


def assert_lawful(
    plan: Plan, receivers: list[Receiver], counts: list[int], budget: int = NO_BUDGET
) -> None:
    given = [index for grant in plan.grants for index in grant.entries]
    assert sorted([*given, *plan.rest]) == list(range(len(counts)))
    assert list(plan.rest) == sorted(plan.rest)
    for grant in plan.grants:
        assert list(grant.entries) == sorted(grant.entries)
        assert grant.entries
        assert grant.messages == sum(counts[index] for index in grant.entries)
    for receiver in receivers:
        got = [
            counts[index]
            for grant in plan.grants
            if grant.consumer == receiver.consumer
            for index in grant.entries
        ]
        # Each entry went out while there was room for one message at least.
        assert not got or sum(got[:-1]) < receiver.room()
    in_order = [counts[index] for index in sorted(given)]
    assert not in_order or sum(in_order[:-1]) < budget


@given(receiver_lists(), counts_lists, budgets)
@settings(max_examples=150, deadline=None)
def test_a_single_plan_is_the_longest_prefix_there_is_room_for(
    receivers: list[Receiver], counts: list[int], budget: int
) -> None:
    receiver = receivers[0] if receivers else None
    plan = plan_single(receiver, counts, budget)
    assert_lawful(plan, receivers, counts, budget)
    given = [index for grant in plan.grants for index in grant.entries]
    assert given == list(range(len(given)))
    if receiver is not None and len(given) < len(counts):
        assert sum(counts[: len(given)]) >= min(receiver.room(), budget)


@given(receiver_lists(), st.lists(counts_lists, max_size=4), budgets, st.integers(1, 25))
@settings(max_examples=200, deadline=None)
def test_shared_plans_keep_the_books(
    receivers: list[Receiver], batches: list[list[int]], budget: int, turn_messages: int
) -> None:
    rotation = Rotation()
    for counts in batches:
        plan = rotation.plan(receivers, counts, turn_messages=turn_messages, budget=budget)
        assert_lawful(plan, receivers, counts, budget)
        if plan.rest and sum(counts[: plan.rest[0]]) < budget:
            # Stopped for want of room alone.
            spent = {receiver.consumer: 0 for receiver in receivers}
            for grant in plan.grants:
                spent[grant.consumer] += grant.messages
            assert all(each.room() <= spent[each.consumer] for each in receivers)
        before = {each.consumer: (each.permits, each.unacked) for each in receivers}
        for grant in plan.grants:
            receivers[grant.consumer].deliver(grant.messages)
        for each in receivers:
            permits, unacked = before[each.consumer]
            assert permits + unacked == each.permits + each.unacked


@given(receiver_lists(min_size=1), counts_lists, st.integers(1, 25))
@settings(max_examples=150, deadline=None)
def test_a_lower_priority_gets_nothing_while_a_better_one_has_room(
    receivers: list[Receiver], counts: list[int], turn_messages: int
) -> None:
    plan = Rotation().plan(receivers, counts, turn_messages=turn_messages)
    left = {receiver.consumer: receiver.room() for receiver in receivers}
    for grant in plan.grants:
        mine = receivers[grant.consumer].priority
        assert all(left[each.consumer] <= 0 for each in receivers if each.priority < mine)
        left[grant.consumer] -= grant.messages


@given(
    st.integers(1, 6),
    st.lists(st.integers(1, 130), min_size=1, max_size=12),
    st.integers(1, 25),
)
@settings(max_examples=200, deadline=None)
def test_shared_consumers_with_room_are_never_more_than_one_turn_apart_in_a_batch(
    consumers: int, sizes: list[int], turn_messages: int
) -> None:
    receivers = [Receiver(number, "c", unacked_limit=0) for number in range(consumers)]
    for receiver in receivers:
        receiver.allow(100_000)
    rotation = Rotation()
    for size in sizes:
        got = [0] * consumers
        for grant in rotation.plan(receivers, [1] * size, turn_messages=turn_messages).grants:
            assert grant.messages <= turn_messages
            got[grant.consumer] += grant.messages
        assert max(got) - min(got) <= turn_messages


@given(st.integers(2, 5), st.integers(1, 90), st.integers(1, 25))
@settings(max_examples=100, deadline=None)
def test_batches_of_one_size_do_not_favour_whoever_comes_first(
    consumers: int, size: int, turn_messages: int
) -> None:
    receivers = [Receiver(number, "c", unacked_limit=0) for number in range(consumers)]
    for receiver in receivers:
        receiver.allow(10_000_000)
    rotation = Rotation()
    got = [0] * consumers
    rounds = 50
    for _ in range(rounds):
        for grant in rotation.plan(receivers, [1] * size, turn_messages=turn_messages).grants:
            got[grant.consumer] += grant.messages
    assert max(got) - min(got) <= 2 * turn_messages


@given(
    receiver_lists(),
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 9)), max_size=60),
    st.dictionaries(st.integers(0, 8), st.integers(0, 4)),
    st.dictionaries(st.integers(0, 8), st.integers(0, 4)),
    st.sets(st.integers(0, 8)),
    budgets,
)
@settings(max_examples=300, deadline=None)
def test_keyed_plans_never_pass_an_entry_of_the_same_slot(
    receivers: list[Receiver],
    entries: list[tuple[int, int]],
    owners: dict[int, int],
    holders: dict[int, int],
    stuck: set[int],
    budget: int,
) -> None:
    owners = {slot: owner for slot, owner in owners.items() if owner < len(receivers)}
    slots = [slot for slot, _ in entries]
    counts = [count for _, count in entries]
    plan = plan_keyed(receivers, owners.get, holders, slots, counts, stuck=stuck, budget=budget)
    assert_lawful(plan, receivers, counts, budget)
    given = {index: grant.consumer for grant in plan.grants for index in grant.entries}
    for index, consumer in given.items():
        slot = slots[index]
        assert consumer == owners[slot]
        assert slot not in stuck
        assert holders.get(slot, consumer) == consumer
        assert not any(slots[other] == slot for other in plan.rest if other < index)
