from __future__ import annotations

from anabranch.broker.dispatch_limits import (
    NO_LIMITS,
    DispatchLimits,
    dispatch_limit,
    publish_limit,
)
from anabranch.broker.policy_values import DispatchRate, PublishRate
from anabranch.broker.rate_limit import UNLIMITED


def test_no_rate_is_no_limit() -> None:
    assert dispatch_limit(DispatchRate(), 0.0) is None
    assert publish_limit(PublishRate(messages=0, bytes=-1), 0.0) is None
    assert NO_LIMITS.wait_seconds(0.0) == 0.0
    assert NO_LIMITS.room(0.0) == (UNLIMITED, UNLIMITED)


def test_the_tighter_of_two_limits_holds() -> None:
    topic = dispatch_limit(DispatchRate(messages=100, bytes=50), 0.0)
    own = dispatch_limit(DispatchRate(messages=10), 0.0)
    assert topic is not None
    assert own is not None
    limits = DispatchLimits([topic, own])
    assert limits.room(0.0) == (10, 50)
    limits.charge(0.0, 10, 25)
    assert limits.room(0.0)[0] == 0
    assert limits.wait_seconds(0.0) > 0
    # What one of them took, the topic's other subscriptions cannot have.
    assert topic.room(0.0) == (90, 25)


def test_a_period_of_its_own_is_kept() -> None:
    own = dispatch_limit(DispatchRate(messages=10, period_seconds=10), 0.0)
    assert own is not None
    limits = DispatchLimits([own])
    limits.charge(0.0, 10, 0)
    assert limits.room(0.5) == (0, 0)
    assert limits.room(5.0)[0] == 5
