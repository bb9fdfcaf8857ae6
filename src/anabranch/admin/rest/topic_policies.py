"""What may be set for a single topic; its partitions share it."""

from __future__ import annotations

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import FLAG, INTEGER, NAMES, OBJECT, TEXT, Endpoint
from anabranch.admin.messages import Request
from anabranch.admin.rest.single_policy import (
    Change,
    Level,
    PolicyPath,
    policy_endpoints,
    quota_endpoints,
)
from anabranch.broker.policies import EffectivePolicies, Policies
from anabranch.broker.topic_lifecycle import partition_count
from anabranch.errors import NotSupported

PATH = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"

POLICIES = (
    PolicyPath("retention", "retention_policies", OBJECT),
    PolicyPath("messageTTL", "message_ttl_in_seconds", INTEGER, in_query="messageTTL"),
    PolicyPath("deduplicationEnabled", "deduplicationEnabled", FLAG),
    PolicyPath("deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds", INTEGER),
    PolicyPath("autoSubscriptionCreation", "autoSubscriptionCreationOverride", OBJECT),
    PolicyPath("persistence", "persistence", OBJECT),
    PolicyPath("maxProducers", "max_producers_per_topic", INTEGER),
    PolicyPath("maxConsumers", "max_consumers_per_topic", INTEGER),
    PolicyPath("maxConsumersPerSubscription", "max_consumers_per_subscription", INTEGER),
    PolicyPath("maxSubscriptionsPerTopic", "max_subscriptions_per_topic", INTEGER),
    PolicyPath("maxUnackedMessagesOnConsumer", "max_unacked_messages_per_consumer", INTEGER),
    PolicyPath(
        "maxUnackedMessagesOnSubscription", "max_unacked_messages_per_subscription", INTEGER
    ),
    PolicyPath("maxMessageSize", "max_message_size", INTEGER),
    PolicyPath(
        "publishRate", "publishMaxMessageRate", OBJECT, "publish_rate", is_by_cluster=True
    ),
    PolicyPath(
        "dispatchRate", "topicDispatchRate", OBJECT, "topic_dispatch_rate", is_by_cluster=True
    ),
    PolicyPath(
        "subscriptionDispatchRate", "subscriptionDispatchRate", OBJECT,
        "subscription_dispatch_rate", is_by_cluster=True,
    ),
    PolicyPath(
        "subscribeRate", "clusterSubscribeRate", OBJECT, "subscribe_rate", is_by_cluster=True
    ),
    PolicyPath("inactiveTopicPolicies", "inactive_topic_policies", OBJECT),
    PolicyPath("delayedDelivery", "delayed_delivery_policies", OBJECT),
    PolicyPath("compactionThreshold", "compaction_threshold", INTEGER),
    PolicyPath(
        "schemaCompatibilityStrategy", "schema_compatibility_strategy", TEXT, method="PUT"
    ),
    PolicyPath("schemaValidationEnforced", "schema_validation_enforced", FLAG),
    PolicyPath("subscriptionTypesEnabled", "subscription_types_enabled", NAMES),
)  # fmt: skip


async def _load(admin: Admin, request: Request) -> Policies:
    _check_enabled(admin)
    await partition_count(admin.broker, request.topic)
    return await admin.catalogue.topic_policies.get(request.topic)


async def _load_effective(admin: Admin, request: Request) -> EffectivePolicies:
    await partition_count(admin.broker, request.topic)
    return await admin.catalogue.policies_of(request.topic)


async def _change(admin: Admin, request: Request, change: Change) -> None:
    _check_enabled(admin)
    await partition_count(admin.broker, request.topic)
    base = request.topic.base
    await admin.catalogue.topic_policies.update(base, change)
    await admin.catalogue.topics.refresh_policies(lambda name: name.base == base)


def _check_enabled(admin: Admin) -> None:
    if not admin.live.current.admin.topic_policies:
        raise NotSupported("topicLevelPoliciesEnabled is false")


LEVEL = Level(PATH, _load, _load_effective, _change)
ENDPOINTS: tuple[Endpoint, ...] = (
    *(endpoint for policy in POLICIES for endpoint in policy_endpoints(LEVEL, policy)),
    *quota_endpoints(LEVEL),
)
