"""How long something has been idle, and whether it may go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anabranch.broker.inactivity import IdleTimes, is_retained
from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.policy_values import Retention


def test_time_counts_from_the_first_look_that_saw_it_idle() -> None:
    times: IdleTimes[str] = IdleTimes()
    assert times.look({"a"}, 10.0) == {"a": 0.0}
    assert times.look({"a", "b"}, 15.0) == {"a": 5.0, "b": 0.0}
    assert times.look({"b"}, 20.0) == {"b": 5.0}
    assert times.look({"a"}, 25.0) == {"a": 0.0}


@given(st.lists(st.sets(st.sampled_from("abc")), max_size=20))
def test_idle_time_is_that_of_the_unbroken_run_of_looks(looks: list[set[str]]) -> None:
    times: IdleTimes[str] = IdleTimes()
    for now, idle in enumerate(looks):
        found = times.look(idle, float(now))
        assert set(found) == idle
        for key, seconds in found.items():
            start = now - int(seconds)
            assert all(key in each for each in looks[start : now + 1])
            assert start == 0 or key not in looks[start - 1]


def retaining(minutes: int) -> EffectivePolicies:
    return EffectivePolicies(retention=Retention(minutes, -1 if minutes else 0))


def test_retention_keeps_what_is_younger_than_it() -> None:
    assert not is_retained(retaining(0), 1_000, 1_000)
    assert is_retained(retaining(1), 1_000, 60_999)
    assert not is_retained(retaining(1), 1_000, 61_000)
    assert is_retained(retaining(-1), 0, 10**15)
