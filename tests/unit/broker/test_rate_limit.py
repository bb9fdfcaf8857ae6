from __future__ import annotations

import pytest

from anabranch.broker.rate_limit import UNLIMITED, RateLimit, RatePolicy


def test_no_limit_lets_everything_pass() -> None:
    limit = RateLimit(RatePolicy(), 0.0)
    assert limit.policy.is_unlimited
    assert limit.decide(0.0, 10**9, 10**9) == 0.0
    assert limit.room(0.0) == (UNLIMITED, UNLIMITED)


def test_a_burst_passes_and_then_the_rate_holds() -> None:
    limit = RateLimit(RatePolicy(messages=10), 0.0)
    for _ in range(10):
        assert limit.decide(0.0, 1, 0) == 0.0
    assert limit.decide(0.0, 1, 0) == pytest.approx(0.1)
    assert limit.decide(0.1, 1, 0) == 0.0


def test_what_is_larger_than_the_bucket_passes_and_leaves_a_debt() -> None:
    limit = RateLimit(RatePolicy(bytes=100), 0.0)
    assert limit.decide(0.0, 1, 1000) == 0.0
    assert limit.decide(0.0, 1, 1) == pytest.approx(9.01)
    assert limit.decide(9.02, 1, 1) == 0.0


def test_the_stricter_of_both_limits_decides() -> None:
    limit = RateLimit(RatePolicy(messages=1000, bytes=10), 0.0)
    limit.charge(0.0, 1, 20)
    assert limit.wait_seconds(0.0) == pytest.approx(1.1)
    assert limit.room(0.0) == (0, 0)


def test_room_is_what_is_left_of_each() -> None:
    limit = RateLimit(RatePolicy(messages=10, bytes=100, period_seconds=2.0), 0.0)
    limit.charge(0.0, 4, 10)
    assert limit.room(0.0) == (6, 90)
    assert limit.room(1.0) == (10, 100)


def test_a_clock_that_goes_back_stands_still() -> None:
    limit = RateLimit(RatePolicy(messages=1), 10.0)
    limit.charge(10.0, 1, 0)
    assert limit.wait_seconds(5.0) == pytest.approx(1.0)
    assert limit.wait_seconds(11.0) == 0.0
