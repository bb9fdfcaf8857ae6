"""Backlog quotas: how much, and how old, what subscriptions leave behind may be.

Two quotas, each with an action of its own. Over either of them producers are held (they may come
back when consumers made room) or refused, or the oldest entries are skipped. The size is looked at
whenever a producer comes; the age takes a read, so it is looked at by housekeeping, and what that
found holds until it looks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.policy_values import BacklogQuota
from anabranch.errors import OverQuota as ProducersRefused
from anabranch.errors import ProducersHeld
from anabranch.storage.trimming import (
    UNLIMITED,
    BacklogAction,
    LedgerPolicy,
    OverQuota,
    backlog_cutoff_ms,
    decide_backlog_age,
    decide_backlog_size,
)

if TYPE_CHECKING:
    from anabranch.broker.subscription import Subscription
    from anabranch.broker.topic import Topic


def ledger_policy(policies: EffectivePolicies) -> LedgerPolicy:
    """What the ledger must know to trim, kept in its record."""
    retention = policies.retention
    return LedgerPolicy(
        retention_minutes=retention.time_minutes,
        retention_bytes=retention.size_mb << 20 if retention.size_mb >= 0 else UNLIMITED,
        ttl_seconds=policies.message_ttl_seconds or UNLIMITED,
    )


def size_policy(quota: BacklogQuota) -> LedgerPolicy:
    return LedgerPolicy(
        max_backlog_bytes=quota.limit_bytes if quota.limit_bytes > 0 else UNLIMITED,
        backlog_action=BacklogAction(quota.action.value),
    )


def age_policy(quota: BacklogQuota) -> LedgerPolicy:
    return LedgerPolicy(
        max_backlog_seconds=quota.limit_seconds if quota.limit_seconds > 0 else UNLIMITED,
        backlog_action=BacklogAction(quota.action.value),
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one subscription that is over a quota."""

    subscription: str
    over: OverQuota


def durable(topic: Topic) -> list[Subscription]:
    return [each for each in topic.subscriptions.values() if each.cursor.is_durable]


def over_size(topic: Topic) -> list[Verdict]:
    policy = size_policy(topic.policies.size_quota)
    if policy.max_backlog_bytes == UNLIMITED:
        return []
    ledgers = topic.ledger.ledgers()
    return [
        Verdict(each.name, over)
        for each in durable(topic)
        if (over := decide_backlog_size(ledgers, policy, each.cursor.mark_delete)) is not None
    ]


async def over_age(topic: Topic, now_ms: int) -> list[Verdict]:
    policy = age_policy(topic.policies.age_quota)
    cutoff_ms = backlog_cutoff_ms(policy, now_ms)
    if cutoff_ms is None:
        return []
    found = []
    for each in durable(topic):
        mark = each.cursor.mark_delete
        first_young = await topic.ledger.find_by_time(cutoff_ms, mark)
        over = decide_backlog_age(policy, mark, first_young, topic.ledger.spans())
        if over is not None:
            found.append(Verdict(each.name, over))
    return found


def check_producer(topic: Topic) -> None:
    """ProducersHeld or OverQuota, while a backlog is over a quota that is not met by evicting."""
    for verdict in [*over_size(topic), *topic.over_age]:
        _refuse(topic, verdict)


def _refuse(topic: Topic, verdict: Verdict) -> None:
    text = f"{topic.name}: subscription {verdict.subscription!r}: {verdict.over.reason}"
    match verdict.over.action:
        case BacklogAction.HOLD_PRODUCERS:
            raise ProducersHeld(text)
        case BacklogAction.FAIL_PRODUCERS:
            raise ProducersRefused(text)
        case BacklogAction.EVICT:
            return
