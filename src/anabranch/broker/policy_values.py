"""The values that policies are made of, with the JSON names that admin clients use.

Each is a frozen dataclass whose fields carry their JSON name and their limits, so that reading,
writing and checking are one routine (policy_json.py) instead of one per policy. Rates and limits
follow the convention of the admin API: 0 or less is "no limit", -1 is "infinite" for retention.
"""

# Defaults are made by calls here; all of them are frozen values.
# ruff: noqa: RUF009
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from anabranch.broker.policy_json import flag, integer, number, one_of, optional_text

# What an int and a long are to the admin clients.
INT: Final = (1 << 31) - 1
LONG: Final = (1 << 63) - 1


class QuotaAction(Enum):
    """What happens to a producer, or to a slow subscription, when a backlog is full."""

    HOLD = "producer_request_hold"
    REFUSE = "producer_exception"
    EVICT = "consumer_backlog_eviction"


class QuotaKind(Enum):
    SIZE = "destination_storage"
    AGE = "message_age"


class TopicKind(Enum):
    PARTITIONED = "partitioned"
    NON_PARTITIONED = "non-partitioned"


class InactiveMode(Enum):
    NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
    CAUGHT_UP = "delete_when_subscriptions_caught_up"


@dataclass(frozen=True, slots=True)
class Retention:
    """Of acknowledged messages. 0 and 0 keeps none, -1 is without end; the first limit met wins."""

    time_minutes: int = integer("retentionTimeInMinutes", 0, least=-1, most=INT)
    size_mb: int = integer("retentionSizeInMB", 0, least=-1, most=LONG >> 20)

    def flaws(self) -> list[str]:
        if (self.time_minutes == 0) != (self.size_mb == 0):
            return [
                "retentionTimeInMinutes and retentionSizeInMB must both be 0 or both not: "
                "with one of them 0 nothing is kept"
            ]
        return []


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """For messages that some subscription has not acknowledged yet."""

    limit_bytes: int = integer("limitSize", -1, least=-1, most=LONG, old_name="limit")
    limit_seconds: int = integer("limitTime", -1, least=-1, most=INT)
    action: QuotaAction = one_of("policy", QuotaAction)

    @property
    def is_limited(self) -> bool:
        return self.limit_bytes > 0 or self.limit_seconds > 0


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    is_allowed: bool = flag("allowAutoTopicCreation", True)
    kind: TopicKind = one_of("topicType", TopicKind, TopicKind.NON_PARTITIONED)
    partitions: int = integer("defaultNumPartitions", 1, least=0, most=INT)

    def flaws(self) -> list[str]:
        if self.is_allowed and self.kind is TopicKind.PARTITIONED and self.partitions < 1:
            return ["defaultNumPartitions must be at least 1 for partitioned topics"]
        return []


@dataclass(frozen=True, slots=True)
class AutoSubscriptionCreation:
    is_allowed: bool = flag("allowAutoSubscriptionCreation", True)


@dataclass(frozen=True, slots=True)
class PublishRate:
    messages: int = integer("publishThrottlingRateInMsg", -1, least=-1, most=INT)
    bytes: int = integer("publishThrottlingRateInByte", -1, least=-1, most=LONG)


@dataclass(frozen=True, slots=True)
class DispatchRate:
    messages: int = integer("dispatchThrottlingRateInMsg", -1, least=-1, most=INT)
    bytes: int = integer("dispatchThrottlingRateInByte", -1, least=-1, most=LONG)
    is_relative_to_publish_rate: bool = flag("relativeToPublishRate", False)
    period_seconds: int = integer("ratePeriodInSecond", 1, least=1, most=INT)


@dataclass(frozen=True, slots=True)
class SubscribeRate:
    per_consumer: int = integer("subscribeThrottlingRatePerConsumer", -1, least=-1, most=INT)
    period_seconds: int = integer("ratePeriodInSecond", 30, least=1, most=INT)


@dataclass(frozen=True, slots=True)
class InactiveTopics:
    mode: InactiveMode = one_of(
        "inactiveTopicDeleteMode", InactiveMode, InactiveMode.NO_SUBSCRIPTIONS
    )
    max_inactive_seconds: int = integer("maxInactiveDurationSeconds", 60, least=1, most=INT)
    is_deletion_on: bool = flag("deleteWhileInactive", True)


@dataclass(frozen=True, slots=True)
class DelayedDelivery:
    is_active: bool = flag("active", True)
    tick_ms: int = integer("tickTime", 1000, least=1, most=LONG)
    max_delay_ms: int = integer("maxDeliveryDelayInMillis", 0, least=0, most=LONG)  # 0: no limit


@dataclass(frozen=True, slots=True)
class Persistence:
    """Kept and given back; of these, only an engine with copies acts on the quorums."""

    ensemble: int = integer("bookkeeperEnsemble", 2, least=1, most=INT)
    write_quorum: int = integer("bookkeeperWriteQuorum", 2, least=1, most=INT)
    ack_quorum: int = integer("bookkeeperAckQuorum", 2, least=1, most=INT)
    max_mark_delete_rate: float = number("managedLedgerMaxMarkDeleteRate", -1.0, least=-1.0)
    storage_class_name: str | None = optional_text("managedLedgerStorageClassName")

    def flaws(self) -> list[str]:
        if not self.ensemble >= self.write_quorum >= self.ack_quorum:
            return [
                f"bookkeeperEnsemble {self.ensemble} >= bookkeeperWriteQuorum "
                f"{self.write_quorum} >= bookkeeperAckQuorum {self.ack_quorum} must hold"
            ]
        return []


PolicyValue = (
    Retention | BacklogQuota | AutoTopicCreation | AutoSubscriptionCreation | PublishRate
    | DispatchRate | SubscribeRate | InactiveTopics | DelayedDelivery | Persistence
)  # fmt: skip
