"""How fast messages may pass: token buckets of messages and bytes, filled by the clock.

A bucket holds at most what one period allows. Something passes while both are above zero, and then
takes its whole cost, even if that leaves a debt: a message larger than the bucket must pass some
time, and a batch cannot be cut. Over any time t, then, no more passes than

    rate * (t + period) + the one thing that went into debt

Publishing is charged after the fact: what was received is taken, and the connection is not read
until `wait_seconds` have passed. Dispatch asks for `room` first and charges what it sent.
Time is monotonic, in seconds; a clock that goes back stands still here.
"""

from __future__ import annotations

from dataclasses import dataclass

UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class RatePolicy:
    """Zero or less means no limit, as the policies of upstream have it."""

    messages: int = 0
    bytes: int = 0
    period_seconds: float = 1.0

    @property
    def is_unlimited(self) -> bool:
        return self.messages <= 0 and self.bytes <= 0


class _Bucket:
    __slots__ = ("_capacity", "_rate", "tokens")

    def __init__(self, amount: int, period_seconds: float) -> None:
        self._capacity = float(amount)
        self._rate = amount / period_seconds
        self.tokens = self._capacity

    def fill(self, seconds: float) -> None:
        self.tokens = min(self._capacity, self.tokens + seconds * self._rate)

    def wait_seconds(self) -> float:
        """Until there is a whole token, or a full bucket if that is less than one."""
        missing = min(1.0, self._capacity) - self.tokens
        return missing / self._rate if missing > 0 else 0.0


class RateLimit:
    __slots__ = ("_bytes", "_filled_seconds", "_messages", "policy")

    def __init__(self, policy: RatePolicy, now_seconds: float) -> None:
        self.policy = policy
        period = max(policy.period_seconds, 0.001)
        self._messages = _Bucket(policy.messages, period) if policy.messages > 0 else None
        self._bytes = _Bucket(policy.bytes, period) if policy.bytes > 0 else None
        self._filled_seconds = now_seconds

    def decide(self, now_seconds: float, messages: int, size_bytes: int) -> float:
        """0.0 if they may pass, and then they are charged; else the seconds to wait."""
        wait = self.wait_seconds(now_seconds)
        if wait == 0.0:
            self.charge(now_seconds, messages, size_bytes)
        return wait

    def wait_seconds(self, now_seconds: float) -> float:
        """How long until something may pass."""
        self._fill(now_seconds)
        return max((bucket.wait_seconds() for bucket in self._buckets()), default=0.0)

    def charge(self, now_seconds: float, messages: int, size_bytes: int) -> None:
        """They passed, allowed or not."""
        self._fill(now_seconds)
        if self._messages is not None:
            self._messages.tokens -= messages
        if self._bytes is not None:
            self._bytes.tokens -= size_bytes

    def room(self, now_seconds: float) -> tuple[int, int]:
        """Messages and bytes that may pass now; both 0 if there is anything to wait for."""
        if self.wait_seconds(now_seconds) > 0:
            return 0, 0
        messages = UNLIMITED if self._messages is None else max(1, int(self._messages.tokens))
        size_bytes = UNLIMITED if self._bytes is None else max(1, int(self._bytes.tokens))
        return messages, size_bytes

    def _buckets(self) -> list[_Bucket]:
        return [bucket for bucket in (self._messages, self._bytes) if bucket is not None]

    def _fill(self, now_seconds: float) -> None:
        passed = now_seconds - self._filled_seconds
        if passed > 0:
            self._filled_seconds = now_seconds
            for bucket in self._buckets():
                bucket.fill(passed)
