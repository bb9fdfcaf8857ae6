"""What can be configured: one small dataclass for each part of the broker, a key for each field.

Names and defaults are upstream's wherever it has the key, so that a value from a Pulsar broker's
file means the same here; what is ours is marked. Limits of 0 are "no limit". A part gets its own
dataclass and nothing else, and nothing reads the configuration later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anabranch.broker.config_keys import (
    INT_MAX,
    Kind,
    bytes_,
    flag,
    integer,
    key,
    megabytes,
    milliseconds,
    minutes,
    name,
    seconds,
    text,
)
from anabranch.errors import Refused
from anabranch.metadata.urls import parse_store_url

_PORT: Final = integer(0, 65_535)


def store_url() -> Kind:
    def read(raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError
        try:
            if raw.strip():
                parse_store_url(raw.strip())
        except Refused as error:
            raise ValueError from error
        return raw.strip()

    return Kind(read, "sqlite:/path/file.db, memory:NAME, zk:host:2181/chroot or oxia://host/space")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Listening, connections and their limits."""

    cluster: str = key("clusterName", name(), "standalone", "name of this cluster")
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
        "metadataStoreUrl", store_url(), "", "empty: SQLite in the data directory",
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
