from __future__ import annotations

import pytest

from anabranch.broker.policies import (
    NOTHING_SET,
    SETTINGS,
    SUBSCRIPTION_TYPES,
    EffectivePolicies,
    Policies,
    contradictions,
    parse_policies,
    parse_setting,
    parse_stored_policies,
    resolve,
    with_setting,
)
from anabranch.broker.policy_values import (
    BacklogQuota,
    PublishRate,
    QuotaAction,
    QuotaKind,
    Retention,
)
from anabranch.broker.schemas.compatibility import Strategy
from anabranch.broker.schemas.registry import SchemaRules
from anabranch.errors import Corrupt, InvalidInput
from anabranch.topics.json_fields import Json

BROKER = EffectivePolicies()
QUOTA = BacklogQuota(10, -1, QuotaAction.EVICT)
OTHER_QUOTA = BacklogQuota(20, -1, QuotaAction.REFUSE)


def test_topic_wins_over_namespace_wins_over_broker() -> None:
    namespace = Policies(message_ttl_seconds=5, max_producers_per_topic=6)
    topic = Policies(message_ttl_seconds=7)
    found = resolve(BROKER, namespace, topic, cluster="c")
    assert found.message_ttl_seconds == 7
    assert found.max_producers_per_topic == 6
    assert found.max_consumers_per_topic == BROKER.max_consumers_per_topic


def test_zero_and_false_are_set() -> None:
    namespace = Policies(max_unacked_per_consumer=5, is_deduplication_on=True)
    topic = Policies(max_unacked_per_consumer=0, is_deduplication_on=False)
    found = resolve(BROKER, namespace, topic, cluster="c")
    assert found.max_unacked_per_consumer == 0
    assert not found.is_deduplication_on


def test_quotas_are_resolved_one_kind_at_a_time() -> None:
    namespace = Policies(backlog_quotas={QuotaKind.SIZE: QUOTA, QuotaKind.AGE: QUOTA})
    topic = Policies(backlog_quotas={QuotaKind.SIZE: OTHER_QUOTA})
    found = resolve(BROKER, namespace, topic, cluster="c")
    assert (found.size_quota, found.age_quota) == (OTHER_QUOTA, QUOTA)


def test_rates_are_those_of_our_cluster() -> None:
    namespace = Policies(publish_rates={"here": PublishRate(5), "there": PublishRate(6)})
    assert resolve(BROKER, namespace, cluster="here").publish_rate == PublishRate(5)
    assert resolve(BROKER, namespace, cluster="elsewhere").publish_rate == BROKER.publish_rate


def test_undefined_strategy_and_no_subscription_types_are_not_set() -> None:
    namespace = Policies(schema_strategy=Strategy.UNDEFINED, subscription_types=())
    found = resolve(BROKER, namespace, cluster="c")
    assert found.schema_strategy is Strategy.FULL
    assert found.subscription_types == SUBSCRIPTION_TYPES


def test_message_size_cannot_be_raised_above_the_brokers() -> None:
    for limit, effective in ((1000, 1000), (0, BROKER.max_message_bytes), (1 << 30, 5 << 20)):
        found = resolve(BROKER, Policies(max_message_bytes=limit), cluster="c")
        assert found.max_message_bytes == effective


def test_what_the_broker_demands_of_all_cannot_be_waived() -> None:
    strict = EffectivePolicies(is_encryption_required=True, is_schema_enforced=True)
    waived = Policies(is_encryption_required=False, is_schema_enforced=False)
    found = resolve(strict, waived, cluster="c")
    assert found.is_encryption_required
    assert found.is_schema_enforced
    demanded = Policies(is_encryption_required=True, is_schema_enforced=True)
    found = resolve(BROKER, demanded, cluster="c")
    assert found.is_encryption_required
    assert found.is_schema_enforced


def test_all_problems_are_told_at_once() -> None:
    raw: Json = {
        "message_ttl_in_seconds": -1,
        "encryption_required": 1,
        "backlog_quota_map": {"disk": {}, "message_age": {}},
        "retention_policies": {"retentionTimeInMinutes": 1, "retentionSizeInMB": 0},
        "subscription_types_enabled": ["Shared", "Sharded"],
        "schema_compatibility_strategy": "MAYBE",
        "scalableTopicAutoScalePolicy": {"maxSegments": "many"},
        "publishMaxMessageRate": [],
    }
    with pytest.raises(InvalidInput) as caught:
        parse_policies(raw)
    for part in (
        "message_ttl_in_seconds", "encryption_required", "key 'disk'",
        "message_age.policy: missing", "retention_policies", "Sharded", "MAYBE",
        "maxSegments", "publishMaxMessageRate",
    ):  # fmt: skip
        assert part in str(caught.value)


@pytest.mark.parametrize("raw", [3, [3], ["Sharded"]])
def test_subscription_types_are_a_list_of_known_ones(raw: Json) -> None:
    with pytest.raises(InvalidInput, match="subscription_types_enabled"):
        parse_setting("subscription_types_enabled", raw)
    assert parse_setting("subscription_types_enabled", ["Shared", "Failover", "Shared"]) == (
        "Failover",
        "Shared",
    )


@pytest.mark.parametrize("raw", [None, [], "x"])
def test_policies_are_an_object(raw: Json) -> None:
    with pytest.raises(InvalidInput, match="expected an object"):
        parse_policies(raw)
    with pytest.raises(Corrupt, match="expected an object"):
        parse_stored_policies(raw, "/admin/x")


def test_what_this_version_does_not_know_is_given_back() -> None:
    raw: Json = {"offload_policies": {"a": [1]}, "message_ttl_in_seconds": 3, "persistence": None}
    policies = parse_policies(raw)
    assert policies.message_ttl_seconds == 3
    assert policies.to_json() == {"offload_policies": {"a": [1]}, "message_ttl_in_seconds": 3}


def test_single_policies_are_set_and_unset_by_their_json_name() -> None:
    value = parse_setting(
        "retention_policies", {"retentionTimeInMinutes": 1, "retentionSizeInMB": 2}
    )
    policies = with_setting(NOTHING_SET, "retention_policies", value)
    assert policies == Policies(retention=Retention(1, 2))
    assert with_setting(policies, "retention_policies", None) == NOTHING_SET
    with pytest.raises(InvalidInput, match="max_producers_per_topic"):
        parse_setting("max_producers_per_topic", -1)


def test_every_effective_field_can_be_set_somewhere() -> None:
    attributes = {name for name, _ in SETTINGS.values()}
    effective = set(EffectivePolicies.__dataclass_fields__)
    maps = {"backlog_quotas", "publish_rates", "topic_dispatch_rates",
            "subscription_dispatch_rates", "subscribe_rates"}  # fmt: skip
    single = {"size_quota", "age_quota", "publish_rate", "topic_dispatch_rate",
              "subscription_dispatch_rate", "subscribe_rate"}  # fmt: skip
    assert effective - single == attributes - maps - {"auto_scale"}


def test_backlog_may_not_outgrow_what_is_retained() -> None:
    quotas = {
        QuotaKind.SIZE: BacklogQuota(2 << 20, -1, QuotaAction.HOLD),
        QuotaKind.AGE: BacklogQuota(-1, 60, QuotaAction.HOLD),
    }
    assert len(contradictions(Policies(retention=Retention(1, 2), backlog_quotas=quotas))) == 2
    assert contradictions(Policies(retention=Retention(2, 3), backlog_quotas=quotas)) == []
    assert contradictions(Policies(retention=Retention(-1, -1), backlog_quotas=quotas)) == []
    assert contradictions(Policies(backlog_quotas=quotas)) == []
    with pytest.raises(InvalidInput, match="backlog quota"):
        parse_policies(Policies(retention=Retention(1, 2), backlog_quotas=quotas).to_json())


def test_schema_rules_are_those_of_the_policies() -> None:
    policies = Policies(schema_strategy=Strategy.FORWARD, is_schema_update_allowed=False)
    found = resolve(BROKER, policies, Policies(is_schema_enforced=True), cluster="c")
    assert found.schema_rules == SchemaRules(
        Strategy.FORWARD, is_update_allowed=False, is_enforced=True
    )
