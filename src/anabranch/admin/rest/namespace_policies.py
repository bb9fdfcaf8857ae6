"""What may be set for all topics of a namespace."""

from __future__ import annotations

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import FLAG, INTEGER, NAMES, OBJECT, TEXT, Endpoint, get
from anabranch.admin.messages import NO_CONTENT, Reply, Request
from anabranch.admin.rest.single_policy import (
    Change,
    Level,
    PolicyPath,
    policy_endpoints,
    quota_endpoints,
)
from anabranch.broker.policies import EffectivePolicies, Policies
from anabranch.errors import InvalidInput, Malformed

PATH = "/admin/v2/namespaces/{tenant}/{namespace}"

POLICIES = (
    PolicyPath("retention", "retention_policies", OBJECT),
    PolicyPath("messageTTL", "message_ttl_in_seconds", INTEGER),
    PolicyPath("subscriptionExpirationTime", "subscription_expiration_time_minutes", INTEGER),
    PolicyPath("deduplication", "deduplicationEnabled", FLAG),
    PolicyPath("deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds", INTEGER),
    PolicyPath("autoTopicCreation", "autoTopicCreationOverride", OBJECT),
    PolicyPath("autoSubscriptionCreation", "autoSubscriptionCreationOverride", OBJECT),
    PolicyPath("persistence", "persistence", OBJECT),
    PolicyPath("maxProducersPerTopic", "max_producers_per_topic", INTEGER),
    PolicyPath("maxConsumersPerTopic", "max_consumers_per_topic", INTEGER),
    PolicyPath("maxConsumersPerSubscription", "max_consumers_per_subscription", INTEGER),
    PolicyPath("maxSubscriptionsPerTopic", "max_subscriptions_per_topic", INTEGER),
    PolicyPath("maxTopicsPerNamespace", "max_topics_per_namespace", INTEGER),
    PolicyPath("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer", INTEGER),
    PolicyPath(
        "maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription", INTEGER
    ),
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
    PolicyPath("encryptionRequired", "encryption_required", FLAG),
    PolicyPath("delayedDelivery", "delayed_delivery_policies", OBJECT),
    PolicyPath("compactionThreshold", "compaction_threshold", INTEGER, method="PUT"),
    PolicyPath(
        "schemaCompatibilityStrategy", "schema_compatibility_strategy", TEXT, method="PUT"
    ),
    PolicyPath("schemaValidationEnforced", "schema_validation_enforced", FLAG),
    PolicyPath("isAllowAutoUpdateSchema", "is_allow_auto_update_schema", FLAG),
    PolicyPath("subscriptionTypesEnabled", "subscription_types_enabled", NAMES),
)  # fmt: skip


async def _load(admin: Admin, request: Request) -> Policies:
    return (await admin.catalogue.namespaces.require(request.namespace)).policies


async def _load_effective(admin: Admin, request: Request) -> EffectivePolicies:
    return await admin.catalogue.policies_of_namespace(request.namespace)


async def _change(admin: Admin, request: Request, change: Change) -> None:
    namespace = request.namespace
    await admin.catalogue.namespaces.update_policies(namespace, change)
    await admin.catalogue.topics.refresh_policies(lambda name: name.namespace == namespace)


async def get_clusters(admin: Admin, request: Request) -> Reply:
    return Reply([*(await admin.catalogue.namespaces.require(request.namespace)).clusters])


async def set_clusters(admin: Admin, request: Request) -> Reply:
    """Only those that are there already: nothing is replicated between clusters here."""
    found = request.required_json()
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise Malformed("expected a list of clusters")
    record = await admin.catalogue.namespaces.require(request.namespace)
    if {*found} != {*record.clusters}:
        raise InvalidInput(f"{request.namespace} is served by {', '.join(record.clusters)} only")
    return NO_CONTENT


LEVEL = Level(PATH, _load, _load_effective, _change)
ENDPOINTS: tuple[Endpoint, ...] = (
    *(endpoint for policy in POLICIES for endpoint in policy_endpoints(LEVEL, policy)),
    *quota_endpoints(LEVEL),
    get(f"{PATH}/replication", get_clusters, "The clusters that serve it", NAMES),
    Endpoint("POST", f"{PATH}/replication", set_clusters, "Choose them", body=NAMES,
             is_body_required=True),
)  # fmt: skip
