"""When a topic, or a subscription, is unused for so long that it may go: pure.

A topic is idle while it has no producers, no consumers, and no subscriptions (or, by policy, none
with a backlog). It must have been idle at every look for the whole time, and retention must not
want what it holds.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.policy_values import InactiveMode
from anabranch.broker.topic import Topic

Key = TypeVar("Key", bound=Hashable)


class IdleTimes(Generic[Key]):
    """Since when each thing has been seen idle; whoever is not looked at is forgotten."""

    def __init__(self) -> None:
        self._since: dict[Key, float] = {}

    def look(self, idle: set[Key], now_seconds: float) -> dict[Key, float]:
        """For how long each of these has been idle."""
        self._since = {key: self._since.get(key, now_seconds) for key in idle}
        return {key: now_seconds - since for key, since in self._since.items()}


def is_idle(topic: Topic) -> bool:
    if topic.producers or any(each.consumers for each in topic.subscriptions.values()):
        return False
    if topic.policies.inactive_topics.mode is InactiveMode.NO_SUBSCRIPTIONS:
        return not topic.subscriptions
    return all(each.cursor.backlog == 0 for each in topic.subscriptions.values())


def is_retained(policies: EffectivePolicies, last_published_ms: int, now_ms: int) -> bool:
    """Whether retention still wants what a topic holds, though nobody reads it."""
    minutes = policies.retention.time_minutes
    if minutes < 0:
        return True
    return now_ms - last_published_ms < minutes * 60_000


def may_go(topic: Topic, idle_seconds: float, now_ms: int) -> bool:
    policy = topic.policies.inactive_topics
    if not policy.is_deletion_on or idle_seconds < policy.max_inactive_seconds:
        return False
    last_ms = max(topic.last_published_ms, topic.created_at_ms)
    return is_idle(topic) and not is_retained(topic.policies, last_ms, now_ms)
