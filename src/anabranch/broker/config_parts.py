"""What can be configured: one small dataclass for each part of the broker, a key for each field.

Names and defaults are upstream's wherever it has the key, so that a value from a Pulsar broker's
file means the same here; what is ours is marked. Limits of 0 are "no limit". A part gets its own
dataclass and nothing else, and nothing reads the configuration later.
"""

# Defaults are made by calls here; each is a dataclass field.
# ruff: noqa: RUF009
from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anabranch.broker.config_keys import (
    INT_MAX,
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
    text,
    texts,
)
from anabranch.broker.policies import SUBSCRIPTION_TYPES
from anabranch.broker.policy_values import InactiveMode, QuotaAction, TopicKind
from anabranch.broker.schemas.compatibility import Strategy

_PORT: Final = integer(0, 65_535)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Listening, connections and their limits."""

    cluster: str = key(
        "clusterName", text(may_be_empty=False), "standalone", "name of this cluster"
    )
    host: str = key("bindAddress", text(), "0.0.0.0", "address to listen on")
    advertised_host: str = key(
        "advertisedAddress", text(), "", "address that clients are told; empty: the host's name"
    )
    port: int = key("brokerServicePort", _PORT, 6650, "binary protocol; 0 picks a free port")
    http_port: int = key("webServicePort", _PORT, 8080, "REST and metrics; 0 picks a free port")
    max_message_bytes: int = key(
        "maxMessageSize", bytes_(1024, 1 << 30), 5 * 1024 * 1024, "largest message, in bytes"
    )
    keep_alive_seconds: int = key(
        "keepAliveIntervalSeconds", seconds(1), 30, "a silent connection is asked after this"
    )
    liveness_check_ms: int = key(
        "connectionLivenessCheckTimeoutMillis", milliseconds(), 5000,
        "wait for an old connection to show life before its names are given away",
    )  # fmt: skip
    max_connections: int = key("brokerMaxConnections", integer(), 0, "of this broker")
    max_connections_per_host: int = key("brokerMaxConnectionsPerIp", integer(), 0, "of one address")
    max_pending_publishes: int = key(
        "maxPendingPublishRequestsPerConnection", integer(1), 1000,
        "unanswered sends after which a connection is no longer read",
    )  # fmt: skip
    publish_buffer_mb: int = key(
        "maxMessagePublishBufferSizeInMB", megabytes(1), 64,
        "received and not yet stored, all connections; beyond it nobody is read", dynamic=True,
    )  # fmt: skip
    write_buffer_high_bytes: int = key(
        "pulsarChannelWriteBufferHighWaterMark", bytes_(1024, INT_MAX), 64 * 1024,
        "unsent bytes of a connection above which its dispatch pauses",
    )  # fmt: skip
    write_buffer_low_bytes: int = key(
        "pulsarChannelWriteBufferLowWaterMark", bytes_(0, INT_MAX), 32 * 1024,
        "unsent bytes below which it goes on",
    )  # fmt: skip
    max_lookups: int = key(
        "maxConcurrentLookupRequest", integer(1), 50_000, "at the same time", dynamic=True
    )
    max_topic_loads: int = key(
        "maxConcurrentTopicLoadRequest", integer(1), 5000, "at the same time", dynamic=True
    )
    topic_load_seconds: int = key("topicLoadTimeoutSeconds", seconds(1), 60, "then it has failed")
    max_http_requests: int = key("maxConcurrentHttpRequests", integer(1), 1024, "at the same time")
    max_http_request_bytes: int = key(
        "httpMaxRequestSize", integer(-1, 1 << 31), -1, "body of a REST request; -1: 1 MB"
    )
    shutdown_ms: int = key(
        "brokerShutdownTimeoutMs", milliseconds(), 60_000, "to drain on SIGTERM", dynamic=True
    )


@dataclass(frozen=True, slots=True)
class MetadataConfig:
    url: str = key(
        "metadataStoreUrl", text(), "", "empty: SQLite in the data directory",
        aliases=("zookeeperServers",),
    )  # fmt: skip
    session_ms: int = key(
        "metadataStoreSessionTimeoutMillis", milliseconds(2000, 30_000), 6000,
        "upstream: 30 s; shorter, so that another broker takes over sooner",
        aliases=("zooKeeperSessionTimeoutMillis",),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """When a topic begins a new ledger, and what of its cursors is kept."""

    max_entries: int = key(
        "managedLedgerMaxEntriesPerLedger", integer(1), 50_000, "after the least time below"
    )
    max_mb: int = key("managedLedgerMaxSizePerLedgerMbytes", megabytes(1), 2048, "likewise")
    min_minutes: int = key(
        "managedLedgerMinLedgerRolloverTimeMinutes", minutes(), 10, "no ledger is shorter"
    )
    max_minutes: int = key(
        "managedLedgerMaxLedgerRolloverTimeMinutes", minutes(), 240, "no ledger is longer"
    )
    cache_mb: int = key(
        "managedLedgerCacheSizeMB", megabytes(), 32, "entries kept for readers at the end",
        dynamic=True,
    )  # fmt: skip
    cursor_max_entries: int = key(
        "managedLedgerCursorMaxEntriesPerLedger", integer(1), 50_000, "of a cursor's ledger"
    )
    cursor_rollover_seconds: int = key(
        "managedLedgerCursorRolloverTimeInSeconds", seconds(1), 14_400, "of a cursor's ledger"
    )
    cursor_flush_seconds: int = key(
        "managedLedgerCursorPositionFlushSeconds", seconds(), 60, "a changed cursor is saved"
    )
    max_unacked_ranges: int = key(
        "managedLedgerMaxUnackedRangesToPersist", integer(1), 200_000, "of a cursor"
    )
    max_batch_indexes: int = key(
        "managedLedgerMaxBatchDeletedIndexToPersist", integer(0), 200_000, "of a cursor"
    )


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """The local engine below the ledgers; all of these keys are ours."""

    journal_file_mb: int = key("journalFileSizeMB", megabytes(1, 1 << 16), 128, "one journal file")
    journal_files: int = key("journalFileCount", integer(2, 1024), 4, "before writers must wait")
    group_bytes: int = key("journalGroupBytes", bytes_(1), 8 << 20, "most bytes of one sync")
    pending_bytes: int = key("journalPendingBytes", bytes_(1), 64 << 20, "not yet durable")
    owed_bytes: int = key("ledgerOwedBytes", bytes_(1), 64 << 20, "in the journal only")
    reserve_bytes: int = key(
        "diskReserveBytes", bytes_(), 256 << 20, "writes are refused while less is free"
    )
    open_files: int = key("ledgerOpenFiles", integer(1), 256, "kept open")


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What holds for a topic unless its namespace or itself says otherwise."""

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


@dataclass(frozen=True, slots=True)
class DeduplicationConfig:
    max_producers: int = key(
        "brokerDeduplicationMaxNumberOfProducers", integer(1), 10_000, "remembered for a topic"
    )
    entries_between_snapshots: int = key(
        "brokerDeduplicationEntriesInterval", integer(1), 1000, "at most"
    )
    producer_inactivity_minutes: int = key(
        "brokerDeduplicationProducerInactivityTimeoutMinutes", minutes(1), 360, "then forgotten"
    )
    check_seconds: int = key(
        "brokerDeduplicationSnapshotFrequencyInSeconds", seconds(1), 120, "between two looks"
    )


@dataclass(frozen=True, slots=True)
class DispatchConfig:
    read_batch: int = key(
        "dispatcherMaxReadBatchSize", integer(1), 100, "entries at a time", dynamic=True
    )
    read_bytes: int = key(
        "dispatcherMaxReadSizeBytes", bytes_(1), 5 * 1024 * 1024, "bytes at a time", dynamic=True
    )
    round_robin_batch: int = key(
        "dispatcherMaxRoundRobinBatchSize", integer(1), 20, "entries for one of several consumers",
        dynamic=True,
    )  # fmt: skip
    failover_delay_ms: int = key(
        "activeConsumerFailoverDelayTimeMillis", milliseconds(), 1000,
        "before a new active consumer starts",
    )  # fmt: skip
    failover_consistent_hashing: bool = key(
        "activeConsumerFailoverConsistentHashing", flag(), False, "to spread active consumers"
    )
    key_shared_consistent_hashing: bool = key(
        "subscriptionKeySharedUseConsistentHashing", flag(), True, "else ranges are split in half"
    )
    key_shared_points: int = key(
        "subscriptionKeySharedConsistentHashingReplicaPoints", integer(1, 10_000), 100,
        "of a consumer on the ring",
    )  # fmt: skip
    look_ahead_per_consumer: int = key(
        "keySharedLookAheadMsgInReplayThresholdPerConsumer", integer(), 4000,
        "messages read past blocked keys",
    )  # fmt: skip
    look_ahead_per_subscription: int = key(
        "keySharedLookAheadMsgInReplayThresholdPerSubscription", integer(), 40_000, "likewise"
    )
    batch_index_acks: bool = key(
        "acknowledgmentAtBatchIndexLevelEnabled", flag(), True, "acks of single messages of a batch"
    )
    max_consumer_metadata_bytes: int = key("maxConsumerMetadataSize", bytes_(), 1024, "")
    expose_entry_metadata: bool = key(
        "exposingBrokerEntryMetadataToClientEnabled", flag(), False,
        "to clients that ask for it",
    )  # fmt: skip
    filter_patterns: bool = key(
        "enableBrokerSideSubscriptionPatternEvaluation", flag(), True, "by the broker"
    )
    max_pattern_length: int = key("subscriptionPatternMaxLength", integer(1, 1000), 50, "")
    watch_topic_lists: bool = key("enableBrokerTopicListWatcher", flag(), True, "")


@dataclass(frozen=True, slots=True)
class HousekeepingConfig:
    """How often the broker looks after its topics."""

    inactive_seconds: int = key(
        "brokerDeleteInactiveTopicsFrequencySeconds", seconds(1), 60, "unused topics", dynamic=True
    )
    expiry_minutes: int = key("messageExpiryCheckIntervalInMinutes", minutes(1), 5, "TTL")
    subscription_expiry_minutes: int = key(
        "subscriptionExpiryCheckIntervalInMinutes", minutes(1), 5, "unused subscriptions"
    )
    check_quotas: bool = key("backlogQuotaCheckEnabled", flag(), True, "")
    quota_seconds: int = key("backlogQuotaCheckIntervalInSeconds", seconds(1), 60, "backlog quotas")
    retention_seconds: int = key("retentionCheckIntervalInSeconds", seconds(1), 120, "retention")
    compaction_seconds: int = key(
        "brokerServiceCompactionMonitorIntervalInSeconds", seconds(1), 60, "compaction"
    )
    stats_seconds: int = key("statsUpdateFrequencyInSecs", seconds(1), 60, "rates")
    delete_partition_records: bool = key(
        "brokerDeleteInactivePartitionedTopicMetadataEnabled", flag(), False,
        "a partitioned topic goes with its last partition",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AdminConfig:
    max_tenants: int = key("maxTenants", integer(), 0, "", dynamic=True)
    max_namespaces_per_tenant: int = key("maxNamespacesPerTenant", integer(), 0, "", dynamic=True)
    max_partitions: int = key("maxNumPartitionsPerPartitionedTopic", integer(), 0, "", dynamic=True)
    namespace_bundles: int = key(
        "defaultNumberOfNamespaceBundles", integer(1, 1024), 4, "", dynamic=True
    )
    force_delete_tenant: bool = key("forceDeleteTenantAllowed", flag(), False, "", dynamic=True)
    force_delete_namespace: bool = key(
        "forceDeleteNamespaceAllowed", flag(), False, "", dynamic=True
    )
    topic_policies: bool = key("topicLevelPoliciesEnabled", flag(), True, "")


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    by_topic: bool = key("exposeTopicLevelMetricsInPrometheus", flag(), True, "")
    by_consumer: bool = key("exposeConsumerLevelMetricsInPrometheus", flag(), False, "")
    by_producer: bool = key("exposeProducerLevelMetricsInPrometheus", flag(), False, "")
    split_partition_label: bool = key(
        "splitTopicAndPartitionLabelInPrometheus", flag(), False, "topic and partition apart"
    )
    publishers_in_stats: bool = key("exposePublisherStats", flag(), True, "")
