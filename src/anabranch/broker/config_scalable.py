"""What can be configured of scalable topics and of transactions.

The spellings of the proposals (without the unit, or in the singular) are aliases, and so are their
values: `60s`, `50MB`, `25%`.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.broker.config_keys import bytes_, flag, integer, key, number, seconds, share


@dataclass(frozen=True, slots=True)
class ScalableConfig:
    enabled: bool = key(
        "scalableTopicsEnabled", flag(), True, "feature switch", aliases=("scalableTopicEnabled",)
    )
    allow_migration: bool = key(
        "enableScalableTopicMigration", flag(), True, "of regular topics to scalable ones"
    )
    grace_seconds: int = key(
        "scalableTopicConsumerSessionGracePeriodSeconds", seconds(), 60,
        "a consumer that lost its connection keeps its segments",
        aliases=("scalableTopicConsumerSessionGracePeriod",),
    )  # fmt: skip
    entry_bucket_budget: int = key(
        "scalableTopicEntryBucketBudget", integer(1), 4, "buckets of a new topic", dynamic=True
    )
    load_report_seconds: int = key(
        "scalableTopicLoadReportIntervalSeconds", seconds(-1), 10, "0 or less: none",
        aliases=("scalableTopicLoadReportInterval",),
    )  # fmt: skip
    load_report_change: float = key(
        "scalableTopicLoadReportRateChangeThreshold", share(), 0.25, "that is worth a report",
        dynamic=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AutoScaleConfig:
    """What holds for a scalable topic unless its namespace or itself says otherwise."""

    enabled: bool = key(
        "scalableTopicAutoScaleEnabled", flag(), True, "automatic splits and merges", dynamic=True
    )
    interval_seconds: int = key(
        "scalableTopicAutoScaleIntervalSeconds", seconds(-1), 60, "0 or less: none",
        aliases=("scalableTopicAutoScaleInterval",),
    )  # fmt: skip
    max_segments: int = key("scalableTopicMaxSegments", integer(1), 64, "active", dynamic=True)
    min_segments: int = key("scalableTopicMinSegments", integer(1), 1, "active", dynamic=True)
    max_dag_depth: int = key(
        "scalableTopicMaxDagDepth", integer(), 10, "merges in a lineage", dynamic=True
    )
    split_cooldown_seconds: int = key(
        "scalableTopicSplitCooldownSeconds", seconds(), 60, "between two splits", dynamic=True,
        aliases=("scalableTopicSplitCooldown",),
    )  # fmt: skip
    merge_cooldown_seconds: int = key(
        "scalableTopicMergeCooldownSeconds", seconds(), 300, "between two merges", dynamic=True,
        aliases=("scalableTopicMergeCooldown",),
    )  # fmt: skip
    merge_window_seconds: int = key(
        "scalableTopicMergeWindowSeconds", seconds(), 300, "a pair must be cold", dynamic=True,
        aliases=("scalableTopicMergeWindow",),
    )  # fmt: skip
    split_msg_rate_in: float = key(
        "scalableTopicSplitMsgRateInThreshold", number(), 10_000.0, "messages/s", dynamic=True
    )
    split_msg_rate_out: float = key(
        "scalableTopicSplitMsgRateOutThreshold", number(), 50_000.0, "messages/s", dynamic=True
    )
    split_bytes_rate_in: int = key(
        "scalableTopicSplitBytesRateInThreshold", bytes_(), 50_000_000, "bytes/s", dynamic=True
    )
    split_bytes_rate_out: int = key(
        "scalableTopicSplitBytesRateOutThreshold", bytes_(), 250_000_000, "bytes/s", dynamic=True
    )
    merge_msg_rate_in: float = key(
        "scalableTopicMergeMsgRateInThreshold", number(), 1000.0, "messages/s", dynamic=True
    )
    merge_msg_rate_out: float = key(
        "scalableTopicMergeMsgRateOutThreshold", number(), 5000.0, "messages/s", dynamic=True
    )
    merge_bytes_rate_in: int = key(
        "scalableTopicMergeBytesRateInThreshold", bytes_(), 5_000_000, "bytes/s", dynamic=True
    )
    merge_bytes_rate_out: int = key(
        "scalableTopicMergeBytesRateOutThreshold", bytes_(), 25_000_000, "bytes/s", dynamic=True
    )


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    enabled: bool = key("transactionCoordinatorEnabled", flag(), False, "master switch")
    scalable: bool = key(
        "transactionCoordinatorScalableTopicsEnabled", flag(), True, "of scalable topics"
    )
    sweep_seconds: int = key(
        "transactionCoordinatorScalableTopicsTimeoutSweepIntervalSeconds", seconds(1), 60, ""
    )
    gc_seconds: int = key(
        "transactionCoordinatorScalableTopicsGcIntervalSeconds", seconds(1), 300, ""
    )
    gc_retention_seconds: int = key(
        "transactionCoordinatorScalableTopicsGcRetentionSeconds", seconds(), 900, ""
    )
    parallelism: int = key(
        "transactionCoordinatorScalableTopicsParallelism", integer(1, 1024), 16,
        "coordinators, fixed at the first start",
    )  # fmt: skip
