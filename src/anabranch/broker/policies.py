"""What may be set for a namespace or a topic, and what then holds: topic, else namespace, else
broker, field by field.

`Policies` is what is *set* at one level; None is "not set here". Both levels have the same fields
and the same JSON, with the names of the admin API's namespace policies, so one routine resolves
them. `EffectivePolicies` is what *holds*: every field has a value. Maps are resolved entry by
entry: quotas by their kind, rates by the name of the cluster.

Limits of 0 or less are "no limit".
"""

# Defaults are made by calls here; all of them are frozen values.
# ruff: noqa: RUF009
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from anabranch.broker.policy_json import (
    Problems,
    Reader,
    choice_reader,
    integer_reader,
    map_reader,
    object_reader,
    read_flag,
    read_texts,
    write,
)
from anabranch.broker.policy_values import (
    INT,
    LONG,
    AutoSubscriptionCreation,
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    DispatchRate,
    InactiveTopics,
    Persistence,
    PublishRate,
    QuotaAction,
    QuotaKind,
    Retention,
    SubscribeRate,
)
from anabranch.broker.schemas.compatibility import Strategy
from anabranch.broker.schemas.registry import SchemaRules
from anabranch.errors import Corrupt, InvalidInput
from anabranch.topics.autoscale_override import AutoScaleOverride, read_autoscale_override
from anabranch.topics.json_fields import Fields, Json

SUBSCRIPTION_TYPES: Final = ("Exclusive", "Failover", "Key_Shared", "Shared")


def _setting(json_name: str, reader: Reader) -> Any:
    return field(default=None, metadata={"json": json_name, "reader": reader})


def _limit(json_name: str, most: int = INT) -> Any:
    return _setting(json_name, integer_reader(0, most))


def _read_autoscale(raw: Json, path: str, problems: Problems) -> AutoScaleOverride | None:
    try:
        return read_autoscale_override(Fields(raw, path, InvalidInput))
    except InvalidInput as error:
        problems.append(str(error))
        return None


def _read_subscription_types(raw: Json, path: str, problems: Problems) -> Any:
    found = read_texts(raw, path, problems)
    wrong = [each for each in found or () if each not in SUBSCRIPTION_TYPES]
    if wrong:
        problems.append(f"{path}: {', '.join(wrong)} is none of {', '.join(SUBSCRIPTION_TYPES)}")
        return None
    return found


@dataclass(frozen=True, slots=True)
class Policies:
    retention: Retention | None = _setting("retention_policies", object_reader(Retention))
    message_ttl_seconds: int | None = _limit("message_ttl_in_seconds")
    subscription_expiration_minutes: int | None = _limit("subscription_expiration_time_minutes")
    backlog_quotas: Mapping[QuotaKind, BacklogQuota] | None = _setting(
        "backlog_quota_map", map_reader(object_reader(BacklogQuota), QuotaKind)
    )
    is_deduplication_on: bool | None = _setting("deduplicationEnabled", read_flag)
    deduplication_snapshot_seconds: int | None = _limit("deduplicationSnapshotIntervalSeconds")
    auto_topic_creation: AutoTopicCreation | None = _setting(
        "autoTopicCreationOverride", object_reader(AutoTopicCreation)
    )
    auto_subscription_creation: AutoSubscriptionCreation | None = _setting(
        "autoSubscriptionCreationOverride", object_reader(AutoSubscriptionCreation)
    )
    max_producers_per_topic: int | None = _limit("max_producers_per_topic")
    max_consumers_per_topic: int | None = _limit("max_consumers_per_topic")
    max_consumers_per_subscription: int | None = _limit("max_consumers_per_subscription")
    max_subscriptions_per_topic: int | None = _limit("max_subscriptions_per_topic")
    max_topics_per_namespace: int | None = _limit("max_topics_per_namespace")
    max_unacked_per_consumer: int | None = _limit("max_unacked_messages_per_consumer")
    max_unacked_per_subscription: int | None = _limit("max_unacked_messages_per_subscription")
    max_message_bytes: int | None = _limit("max_message_size")
    publish_rates: Mapping[str, PublishRate] | None = _setting(
        "publishMaxMessageRate", map_reader(object_reader(PublishRate))
    )
    topic_dispatch_rates: Mapping[str, DispatchRate] | None = _setting(
        "topicDispatchRate", map_reader(object_reader(DispatchRate))
    )
    subscription_dispatch_rates: Mapping[str, DispatchRate] | None = _setting(
        "subscriptionDispatchRate", map_reader(object_reader(DispatchRate))
    )
    subscribe_rates: Mapping[str, SubscribeRate] | None = _setting(
        "clusterSubscribeRate", map_reader(object_reader(SubscribeRate))
    )
    inactive_topics: InactiveTopics | None = _setting(
        "inactive_topic_policies", object_reader(InactiveTopics)
    )
    is_encryption_required: bool | None = _setting("encryption_required", read_flag)
    schema_strategy: Strategy | None = _setting(
        "schema_compatibility_strategy", choice_reader(Strategy)
    )
    is_schema_enforced: bool | None = _setting("schema_validation_enforced", read_flag)
    is_schema_update_allowed: bool | None = _setting("is_allow_auto_update_schema", read_flag)
    compaction_threshold_bytes: int | None = _limit("compaction_threshold", LONG)
    delayed_delivery: DelayedDelivery | None = _setting(
        "delayed_delivery_policies", object_reader(DelayedDelivery)
    )
    persistence: Persistence | None = _setting("persistence", object_reader(Persistence))
    subscription_types: tuple[str, ...] | None = _setting(
        "subscription_types_enabled", _read_subscription_types
    )
    auto_scale: AutoScaleOverride | None = _setting("scalableTopicAutoScalePolicy", _read_autoscale)
    # What others have set and this version does not know, given back as it came.
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        known = {
            json_name: write(getattr(self, name))
            for json_name, (name, _) in SETTINGS.items()
            if getattr(self, name) is not None
        }
        return dict(self.unknown) | known


# JSON name -> attribute and reader, also for endpoints that set one policy at a time.
SETTINGS: Final[dict[str, tuple[str, Reader]]] = {
    each.metadata["json"]: (each.name, each.metadata["reader"])
    for each in fields(Policies)
    if each.name != "unknown"
}


@dataclass(frozen=True, slots=True)
class EffectivePolicies:
    """What holds for one topic. The defaults are the broker's when its file says nothing."""

    retention: Retention = Retention()
    message_ttl_seconds: int = 0
    subscription_expiration_minutes: int = 0
    size_quota: BacklogQuota = BacklogQuota(action=QuotaAction.HOLD)
    age_quota: BacklogQuota = BacklogQuota(action=QuotaAction.HOLD)
    is_deduplication_on: bool = False
    deduplication_snapshot_seconds: int = 120
    auto_topic_creation: AutoTopicCreation = AutoTopicCreation()
    auto_subscription_creation: AutoSubscriptionCreation = AutoSubscriptionCreation()
    max_producers_per_topic: int = 0
    max_consumers_per_topic: int = 0
    max_consumers_per_subscription: int = 0
    max_subscriptions_per_topic: int = 0
    max_topics_per_namespace: int = 0
    max_unacked_per_consumer: int = 50_000
    max_unacked_per_subscription: int = 200_000
    max_message_bytes: int = 5 * 1024 * 1024
    publish_rate: PublishRate = PublishRate()
    topic_dispatch_rate: DispatchRate = DispatchRate()
    subscription_dispatch_rate: DispatchRate = DispatchRate()
    subscribe_rate: SubscribeRate = SubscribeRate()
    inactive_topics: InactiveTopics = InactiveTopics()
    is_encryption_required: bool = False
    schema_strategy: Strategy = Strategy.FULL
    is_schema_enforced: bool = False
    is_schema_update_allowed: bool = True
    compaction_threshold_bytes: int = 0
    delayed_delivery: DelayedDelivery = DelayedDelivery()
    persistence: Persistence = Persistence()
    subscription_types: tuple[str, ...] = SUBSCRIPTION_TYPES

    @property
    def schema_rules(self) -> SchemaRules:
        return SchemaRules(
            self.schema_strategy, self.is_schema_update_allowed, self.is_schema_enforced
        )


# Set as maps, effective as one entry of them.
_QUOTAS: Final = {"size_quota": QuotaKind.SIZE, "age_quota": QuotaKind.AGE}
_RATES: Final = {
    "publish_rate": "publish_rates",
    "topic_dispatch_rate": "topic_dispatch_rates",
    "subscription_dispatch_rate": "subscription_dispatch_rates",
    "subscribe_rate": "subscribe_rates",
}
NOTHING_SET: Final = Policies()


def resolve(
    broker: EffectivePolicies,
    namespace: Policies = NOTHING_SET,
    topic: Policies = NOTHING_SET,
    *,
    cluster: str,
) -> EffectivePolicies:
    levels = (topic, namespace)
    found = {
        each.name: value
        for each in fields(EffectivePolicies)
        if (value := _first_set(each.name, levels, cluster)) is not None
    }
    resolved = replace(broker, **found)
    return replace(
        resolved,
        # Nothing set lets a message through that the connection would not take anyway.
        max_message_bytes=_smaller_limit(resolved.max_message_bytes, broker.max_message_bytes),
        # What the broker demands of all, nobody below it can waive; admin clients always send
        # these two flags, so a false is no decision.
        is_encryption_required=broker.is_encryption_required or resolved.is_encryption_required,
        is_schema_enforced=broker.is_schema_enforced or resolved.is_schema_enforced,
    )


def contradictions(policies: Policies) -> list[str]:
    """Settings of one level that are fine alone and senseless together."""
    retention, found = policies.retention, []
    quotas = policies.backlog_quotas or {}
    size, age = quotas.get(QuotaKind.SIZE), quotas.get(QuotaKind.AGE)
    if retention and size and 0 < retention.size_mb << 20 <= size.limit_bytes:
        found.append(
            f"retentionSizeInMB {retention.size_mb} must be more than the backlog quota of "
            f"{size.limit_bytes} bytes"
        )
    if retention and age and 0 < retention.time_minutes * 60 <= age.limit_seconds:
        found.append(
            f"retentionTimeInMinutes {retention.time_minutes} must be more than the backlog quota "
            f"of {age.limit_seconds} seconds"
        )
    return found


def parse_policies(raw: Json, path: str = "policies") -> Policies:
    """InvalidInput that names every problem at once."""
    policies, problems = read_policies(raw, path)
    problems += [f"{path}: {each}" for each in contradictions(policies)]
    if problems:
        raise InvalidInput("; ".join(problems))
    return policies


def parse_stored_policies(raw: Json, path: str) -> Policies:
    policies, problems = read_policies(raw, path)
    if problems:
        raise Corrupt("; ".join(problems))
    return policies


def read_policies(raw: Json, path: str) -> tuple[Policies, Problems]:
    """All that could be read, and all that could not."""
    if not isinstance(raw, dict):
        return NOTHING_SET, [f"{path}: expected an object, got {type(raw).__name__}"]
    problems: Problems = []
    values = {
        name: reader(raw[json_name], f"{path}.{json_name}", problems)
        for json_name, (name, reader) in SETTINGS.items()
        if raw.get(json_name) is not None
    }
    unknown = {key: value for key, value in raw.items() if key not in SETTINGS}
    return Policies(**values, unknown=unknown), problems


def parse_setting(json_name: str, raw: Json) -> Any:
    """One policy's value by its JSON name, for endpoints that set a single one."""
    problems: Problems = []
    value = SETTINGS[json_name][1](raw, json_name, problems)
    if problems:
        raise InvalidInput("; ".join(problems))
    return value


def with_setting(policies: Policies, json_name: str, value: Any) -> Policies:
    """With one policy set, or with None unset."""
    return replace(policies, **{SETTINGS[json_name][0]: value})


def _first_set(name: str, levels: tuple[Policies, ...], cluster: str) -> Any:
    return next(
        (value for level in levels if (value := _set_at(name, level, cluster)) is not None), None
    )


def _set_at(name: str, level: Policies, cluster: str) -> Any:
    if name in _QUOTAS:
        return (level.backlog_quotas or {}).get(_QUOTAS[name])
    if name in _RATES:
        return (getattr(level, _RATES[name]) or {}).get(cluster)
    value = getattr(level, name)
    # A strategy that is set to "undefined" is not set.
    undefined = value is Strategy.UNDEFINED or value == ()
    return None if undefined else value


def _smaller_limit(one: int, other: int) -> int:
    limits = [each for each in (one, other) if each > 0]
    return min(limits, default=0)
