"""What holds for a topic unless its namespace or itself says otherwise: the keys for it.

`Config.policies` (config.py) makes the policies of these values.
"""

# Defaults are made by calls here; each is a dataclass field.
# ruff: noqa: RUF009
from __future__ import annotations

from dataclasses import dataclass

from anabranch.broker.config_keys import (
    LONG_MAX,
    bytes_,
    choice,
    flag,
    integer,
    key,
    megabytes,
    milliseconds,
    minutes,
    number,
    seconds,
    texts,
)
from anabranch.broker.policies import SUBSCRIPTION_TYPES
from anabranch.broker.policy_values import InactiveMode, QuotaAction, TopicKind
from anabranch.broker.schemas.compatibility import Strategy


@dataclass(frozen=True, slots=True)
class TopicConfig:
    allow_creation: bool = key(
        "allowAutoTopicCreation", flag(), True, "topics come to be when used", dynamic=True
    )
    creation_kind: TopicKind = key(
        "allowAutoTopicCreationType", choice(TopicKind), TopicKind.NON_PARTITIONED,
        "what such a topic is", dynamic=True,
    )  # fmt: skip
    creation_partitions: int = key(
        "defaultNumPartitions", integer(1), 1, "of such a topic", dynamic=True
    )
    allow_subscriptions: bool = key(
        "allowAutoSubscriptionCreation", flag(), True, "subscriptions likewise", dynamic=True
    )
    retention_minutes: int = key(
        "defaultRetentionTimeInMinutes", minutes(-1), 0, "acknowledged messages; -1: for ever"
    )
    retention_mb: int = key("defaultRetentionSizeInMB", megabytes(-1), 0, "likewise")
    ttl_seconds: int = key(
        "ttlDurationDefaultInSeconds", seconds(), 0, "unacknowledged messages; 0: for ever"
    )
    subscription_expiration_minutes: int = key(
        "subscriptionExpirationTimeMinutes", minutes(), 0, "unused subscriptions; 0: for ever"
    )
    quota_bytes: int = key(
        "backlogQuotaDefaultLimitBytes", bytes_(-1), -1, "of a topic's backlog; -1: no limit"
    )
    quota_gb: float = key(
        "backlogQuotaDefaultLimitGB", number(-1.0), -1.0, "the same; the limit in bytes wins"
    )
    quota_seconds: int = key(
        "backlogQuotaDefaultLimitSecond", seconds(-1), -1, "age of a topic's backlog"
    )
    quota_action: QuotaAction = key(
        "backlogQuotaDefaultRetentionPolicy", choice(QuotaAction), QuotaAction.HOLD,
        "when the backlog is full",
    )  # fmt: skip
    max_producers: int = key("maxProducersPerTopic", integer(), 0, "")
    max_consumers: int = key("maxConsumersPerTopic", integer(), 0, "")
    max_subscriptions: int = key("maxSubscriptionsPerTopic", integer(), 0, "")
    max_consumers_per_subscription: int = key("maxConsumersPerSubscription", integer(), 0, "")
    max_unacked_per_consumer: int = key(
        "maxUnackedMessagesPerConsumer", integer(), 50_000, "then it gets no more", dynamic=True
    )
    max_unacked_per_subscription: int = key(
        "maxUnackedMessagesPerSubscription", integer(), 200_000, "likewise", dynamic=True
    )
    publish_messages: int = key(
        "maxPublishRatePerTopicInMessages", integer(), 0, "a second", dynamic=True
    )
    publish_bytes: int = key("maxPublishRatePerTopicInBytes", bytes_(), 0, "a second", dynamic=True)
    topic_dispatch_messages: int = key(
        "dispatchThrottlingRatePerTopicInMsg", integer(), 0, "a second", dynamic=True
    )
    topic_dispatch_bytes: int = key(
        "dispatchThrottlingRatePerTopicInByte", bytes_(), 0, "a second", dynamic=True
    )
    subscription_dispatch_messages: int = key(
        "dispatchThrottlingRatePerSubscriptionInMsg", integer(), 0, "a second", dynamic=True
    )
    subscription_dispatch_bytes: int = key(
        "dispatchThrottlingRatePerSubscriptionInByte", bytes_(), 0, "a second", dynamic=True
    )
    is_dispatch_relative: bool = key(
        "dispatchThrottlingRateRelativeToPublishRate", flag(), False,
        "dispatch limits are added to the publish rate", dynamic=True,
    )  # fmt: skip
    subscribe_rate: int = key(
        "subscribeThrottlingRatePerConsumer", integer(), 0, "in the period below", dynamic=True
    )
    subscribe_period_seconds: int = key(
        "subscribeRatePeriodPerConsumerInSecond", seconds(1), 30, "", dynamic=True
    )
    delete_inactive: bool = key(
        "brokerDeleteInactiveTopicsEnabled", flag(), True, "topics that nobody uses", dynamic=True
    )
    inactive_mode: InactiveMode = key(
        "brokerDeleteInactiveTopicsMode", choice(InactiveMode), InactiveMode.NO_SUBSCRIPTIONS,
        "when a topic counts as unused", dynamic=True,
    )  # fmt: skip
    max_inactive_seconds: int = key(
        "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", seconds(), 0,
        "for how long; 0: as long as between two looks", dynamic=True,
    )  # fmt: skip
    require_encryption: bool = key("encryptionRequireOnProducer", flag(), False, "")
    schema_strategy: Strategy = key(
        "schemaCompatibilityStrategy", choice(Strategy), Strategy.FULL, "how schemas may change"
    )
    enforce_schema: bool = key(
        "isSchemaValidationEnforced", flag(), False, "no producer without the topic's schema"
    )
    allow_schema_update: bool = key(
        "isAllowAutoUpdateSchemaEnabled", flag(), True, "by producers and consumers", dynamic=True
    )
    compaction_threshold_bytes: int = key(
        "brokerServiceCompactionThresholdInBytes", bytes_(), 0, "backlog that starts it; 0: none"
    )
    delayed_delivery: bool = key("delayedDeliveryEnabled", flag(), True, "")
    delayed_tick_ms: int = key("delayedDeliveryTickTimeMillis", milliseconds(1), 1000, "precision")
    max_delay_ms: int = key(
        "delayedDeliveryMaxDelayInMillis", milliseconds(0, LONG_MAX), 0, "0: no limit"
    )
    subscription_types: tuple[str, ...] = key(
        "subscriptionTypesEnabled", texts(SUBSCRIPTION_TYPES), SUBSCRIPTION_TYPES, "",
        dynamic=True,
    )  # fmt: skip
    deduplicate: bool = key("brokerDeduplicationEnabled", flag(), False, "drop doubles of sends")
    deduplication_snapshot_seconds: int = key(
        "brokerDeduplicationSnapshotIntervalSeconds", seconds(), 120, "while producers send"
    )
    max_topics_per_namespace: int = key("maxTopicsPerNamespace", integer(), 0, "", dynamic=True)
