"""From policies to what storage is told."""

from __future__ import annotations

import pytest

from anabranch.broker.backlog_quota import age_policy, ledger_policy, over_size, size_policy
from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.policy_values import BacklogQuota, QuotaAction, Retention
from anabranch.storage.trimming import UNLIMITED, BacklogAction
from tests.admin_world import SPACE, AdminWorld, play


@pytest.mark.parametrize(
    ("retention", "minutes", "size"),
    [
        (Retention(0, 0), 0, 0),
        (Retention(10, 5), 10, 5 << 20),
        (Retention(-1, -1), UNLIMITED, UNLIMITED),
        (Retention(7, -1), 7, UNLIMITED),
    ],
)
def test_retention_is_told_in_bytes(retention: Retention, minutes: int, size: int) -> None:
    policy = ledger_policy(EffectivePolicies(retention=retention))
    assert (policy.retention_minutes, policy.retention_bytes) == (minutes, size)


def test_a_time_to_live_of_nothing_is_for_ever() -> None:
    assert ledger_policy(EffectivePolicies()).ttl_seconds == UNLIMITED
    assert ledger_policy(EffectivePolicies(message_ttl_seconds=9)).ttl_seconds == 9


@pytest.mark.parametrize("action", QuotaAction)
def test_each_quota_has_an_action_of_its_own(action: QuotaAction) -> None:
    size = size_policy(BacklogQuota(100, 7, action))
    assert (size.max_backlog_bytes, size.max_backlog_seconds) == (100, UNLIMITED)
    age = age_policy(BacklogQuota(100, 7, action))
    assert (age.max_backlog_bytes, age.max_backlog_seconds) == (UNLIMITED, 7)
    assert size.backlog_action is age.backlog_action is BacklogAction(action.value)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_is_no_limit(limit: int) -> None:
    quota = BacklogQuota(limit, limit, QuotaAction.HOLD)
    assert size_policy(quota).max_backlog_bytes == UNLIMITED
    assert age_policy(quota).max_backlog_seconds == UNLIMITED


def test_only_subscriptions_that_are_behind_are_over_a_quota() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10, size=100)
        await world.subscribe("behind")
        await world.subscribe("done")
        await world.done("POST", f"/persistent/{SPACE}/x/subscription/done/skip_all")
        quota = {"limitSize": 500, "policy": "producer_exception"}
        await world.done("POST", f"/persistent/{SPACE}/x/backlogQuota", quota)
        assert [each.subscription for each in over_size(topic)] == ["behind"]

    play(scenario)
