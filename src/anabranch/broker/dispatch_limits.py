"""How fast a subscription may be delivered to: its own limit, and its topic's, which all share.

What was asked for before a limit is charged after it was sent, so a batch may overdraw; whoever
comes next waits until the debt is paid (see rate_limit.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.broker.policy_values import DispatchRate, PublishRate
from anabranch.broker.rate_limit import UNLIMITED, RateLimit, RatePolicy


class DispatchLimits:
    """Of one subscription; the topic's limit is the same object for all of them."""

    __slots__ = ("_limits",)

    def __init__(self, limits: Sequence[RateLimit]) -> None:
        self._limits = limits

    def wait_seconds(self, now_seconds: float) -> float:
        """How long until anything may be sent; 0.0: now."""
        return max((limit.wait_seconds(now_seconds) for limit in self._limits), default=0.0)

    def room(self, now_seconds: float) -> tuple[int, int]:
        """Messages and bytes that may be sent now."""
        messages, size_bytes = UNLIMITED, UNLIMITED
        for limit in self._limits:
            room = limit.room(now_seconds)
            messages, size_bytes = min(messages, room[0]), min(size_bytes, room[1])
        return messages, size_bytes

    def charge(self, now_seconds: float, messages: int, size_bytes: int) -> None:
        for limit in self._limits:
            limit.charge(now_seconds, messages, size_bytes)


NO_LIMITS = DispatchLimits(())


def dispatch_limit(rate: DispatchRate, now_seconds: float) -> RateLimit | None:
    return _limit(RatePolicy(rate.messages, rate.bytes, float(rate.period_seconds)), now_seconds)


def publish_limit(rate: PublishRate, now_seconds: float) -> RateLimit | None:
    return _limit(RatePolicy(rate.messages, rate.bytes), now_seconds)


def _limit(policy: RatePolicy, now_seconds: float) -> RateLimit | None:
    return None if policy.is_unlimited else RateLimit(policy, now_seconds)
