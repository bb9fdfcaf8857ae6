"""The configuration of a broker: one TOML file, then `--set key=value`, checked as a whole.

Every mistake is reported at once, each with the place where it was made: an unknown key with the
nearest known one, a value of the wrong kind or out of range, a key set twice under two names,
settings that contradict each other. Either all of it is right or nothing starts.

The keys stand in config_parts.py, config_topics.py and config_scalable.py, on the fields they fill.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Final

from anabranch.broker.config_keys import Key, show
from anabranch.broker.config_parts import (
    AdminConfig,
    DeduplicationConfig,
    DispatchConfig,
    HousekeepingConfig,
    LedgerConfig,
    MetadataConfig,
    MetricsConfig,
    ServerConfig,
    StorageConfig,
)
from anabranch.broker.config_scalable import AutoScaleConfig, ScalableConfig, TransactionConfig
from anabranch.broker.config_topics import TopicConfig
from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.policy_values import (
    AutoSubscriptionCreation,
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    DispatchRate,
    InactiveTopics,
    PublishRate,
    Retention,
    SubscribeRate,
)
from anabranch.errors import InvalidInput, NotFound


@dataclass(frozen=True, slots=True)
class Config:
    server: ServerConfig = field(default_factory=ServerConfig)
    metadata: MetadataConfig = field(default_factory=MetadataConfig)
    ledgers: LedgerConfig = field(default_factory=LedgerConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    topics: TopicConfig = field(default_factory=TopicConfig)
    deduplication: DeduplicationConfig = field(default_factory=DeduplicationConfig)
    dispatch: DispatchConfig = field(default_factory=DispatchConfig)
    housekeeping: HousekeepingConfig = field(default_factory=HousekeepingConfig)
    admin: AdminConfig = field(default_factory=AdminConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    scalable: ScalableConfig = field(default_factory=ScalableConfig)
    auto_scale: AutoScaleConfig = field(default_factory=AutoScaleConfig)
    transactions: TransactionConfig = field(default_factory=TransactionConfig)

    def to_table(self) -> dict[str, str]:
        """Every key and its value as text, sorted: what the admin API shows."""
        return {name: show(self.value_of(name)) for name in sorted(KEYS)}

    def value_of(self, name: str) -> Any:
        part, attribute = _PLACES[name]
        return getattr(getattr(self, part), attribute)

    def with_values(self, values: dict[str, Any]) -> Config:
        """With some keys set to values that were read and checked."""
        changed: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            part, attribute = _PLACES[name]
            changed.setdefault(part, {})[attribute] = value
        parts = {part: replace(getattr(self, part), **new) for part, new in changed.items()}
        return replace(self, **parts)

    def with_dynamic(self, name: str, text: str) -> Config:
        """One key changed while the broker runs. NotFound: no such key; InvalidInput: all else."""
        known = KEYS.get(_CANONICAL.get(name, ""))
        if known is None:
            raise NotFound(f"{name}: unknown key{_suggestion(name)}")
        if not known.is_dynamic:
            raise InvalidInput(f"{known.name} cannot change while the broker runs; restart it")
        try:
            changed = self.with_values({known.name: known.read(text)})
        except ValueError as error:
            raise InvalidInput(f"{known.name}: {error}") from None
        problems = contradictions(changed)
        if problems:
            raise InvalidInput("; ".join(problems))
        return changed

    def policies(self) -> EffectivePolicies:
        """What holds for a topic if neither it nor its namespace says anything."""
        return broker_policies(self)


# Every key once, and where its value goes.
_PLACES: Final[dict[str, tuple[str, str]]] = {}
KEYS: Final[dict[str, Key]] = {}
for _part in fields(Config):
    for _field in fields(_part.default_factory):  # type: ignore[arg-type]  # all are dataclasses
        _key: Key = _field.metadata["key"]
        assert _key.name not in KEYS, _key.name
        KEYS[_key.name] = _key
        _PLACES[_key.name] = (_part.name, _field.name)

_CANONICAL: Final = {each.name: each.name for each in KEYS.values()} | {
    alias: each.name for each in KEYS.values() for alias in each.aliases
}
DYNAMIC_KEYS: Final = tuple(sorted(each.name for each in KEYS.values() if each.is_dynamic))


def load_config(text: str = "", settings: Sequence[str] = (), *, file: str = "config") -> Config:
    """From the text of a TOML file and `key=value` settings, which win. InvalidInput tells all."""
    config, problems = read_config(text, settings, file=file)
    if problems:
        lines = "\n".join(f"  {each}" for each in problems)
        count = len(problems)
        raise InvalidInput(f"{count} mistake{'s' * (count > 1)} in the configuration:\n{lines}")
    return config


def read_config(
    text: str, settings: Sequence[str], *, file: str = "config"
) -> tuple[Config, list[str]]:
    """What could be read, and every problem."""
    problems: list[str] = []
    values = _read_file(text, file, problems) | _read_settings(settings, problems)
    config = Config().with_values(values)
    # Of half-read values it would say what nobody meant.
    return config, problems or contradictions(config)


def contradictions(config: Config) -> list[str]:
    """Values that are fine alone and senseless together."""
    scale, ledgers, server = config.auto_scale, config.ledgers, config.server
    found = [
        f"{merge} must be less than {split}"
        for split, merge in _SPLIT_AND_MERGE
        if config.value_of(split) <= config.value_of(merge)
    ]
    if scale.min_segments > scale.max_segments:
        found.append("scalableTopicMinSegments must not be more than scalableTopicMaxSegments")
    if ledgers.min_minutes > ledgers.max_minutes:
        found.append(
            "managedLedgerMinLedgerRolloverTimeMinutes must not be more than "
            "managedLedgerMaxLedgerRolloverTimeMinutes"
        )
    if server.write_buffer_low_bytes > server.write_buffer_high_bytes:
        found.append(
            "pulsarChannelWriteBufferLowWaterMark must not be more than "
            "pulsarChannelWriteBufferHighWaterMark"
        )
    if server.port == server.http_port != 0:
        found.append(f"brokerServicePort and webServicePort are both {server.port}")
    if server.max_message_bytes >= config.storage.journal_file_mb << 20:
        found.append("maxMessageSize must be less than journalFileSizeMB: it goes into one file")
    topics = config.topics
    found += Retention(topics.retention_minutes, topics.retention_mb).flaws()
    return found


_SPLIT_AND_MERGE: Final = tuple(
    (f"scalableTopicSplit{metric}Threshold", f"scalableTopicMerge{metric}Threshold")
    for metric in ("MsgRateIn", "MsgRateOut", "BytesRateIn", "BytesRateOut")
)


def broker_policies(config: Config) -> EffectivePolicies:
    topics = config.topics
    quota_bytes = topics.quota_bytes
    if quota_bytes <= 0 and topics.quota_gb > 0:
        quota_bytes = int(topics.quota_gb * (1 << 30))
    relative = topics.is_dispatch_relative
    return EffectivePolicies(
        retention=Retention(topics.retention_minutes, topics.retention_mb),
        message_ttl_seconds=topics.ttl_seconds,
        subscription_expiration_minutes=topics.subscription_expiration_minutes,
        size_quota=BacklogQuota(quota_bytes, -1, topics.quota_action),
        age_quota=BacklogQuota(-1, topics.quota_seconds, topics.quota_action),
        is_deduplication_on=topics.deduplicate,
        deduplication_snapshot_seconds=topics.deduplication_snapshot_seconds,
        auto_topic_creation=AutoTopicCreation(
            topics.allow_creation, topics.creation_kind, topics.creation_partitions
        ),
        auto_subscription_creation=AutoSubscriptionCreation(topics.allow_subscriptions),
        max_producers_per_topic=topics.max_producers,
        max_consumers_per_topic=topics.max_consumers,
        max_consumers_per_subscription=topics.max_consumers_per_subscription,
        max_subscriptions_per_topic=topics.max_subscriptions,
        max_topics_per_namespace=topics.max_topics_per_namespace,
        max_unacked_per_consumer=topics.max_unacked_per_consumer,
        max_unacked_per_subscription=topics.max_unacked_per_subscription,
        max_message_bytes=config.server.max_message_bytes,
        publish_rate=PublishRate(topics.publish_messages, topics.publish_bytes),
        topic_dispatch_rate=DispatchRate(
            topics.topic_dispatch_messages, topics.topic_dispatch_bytes, relative
        ),
        subscription_dispatch_rate=DispatchRate(
            topics.subscription_dispatch_messages, topics.subscription_dispatch_bytes, relative
        ),
        subscribe_rate=SubscribeRate(topics.subscribe_rate, topics.subscribe_period_seconds),
        inactive_topics=InactiveTopics(
            topics.inactive_mode,
            topics.max_inactive_seconds or config.housekeeping.inactive_seconds,
            topics.delete_inactive,
        ),
        is_encryption_required=topics.require_encryption,
        schema_strategy=topics.schema_strategy.resolved,
        is_schema_enforced=topics.enforce_schema,
        is_schema_update_allowed=topics.allow_schema_update,
        compaction_threshold_bytes=topics.compaction_threshold_bytes,
        delayed_delivery=DelayedDelivery(
            topics.delayed_delivery, topics.delayed_tick_ms, topics.max_delay_ms
        ),
        subscription_types=topics.subscription_types or EffectivePolicies().subscription_types,
    )


def _read_file(text: str, file: str, problems: list[str]) -> dict[str, Any]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{file}: not TOML: {error}")
        return {}
    values: dict[str, Any] = {}
    for name, raw in table.items():
        place = f"{file}:{_line_of(name, text)}"
        if isinstance(raw, dict):
            problems.append(f"{place}: [{name}]: all keys stand at the top, outside of tables")
            continue
        known = _known(name, place, problems)
        if known is None:
            continue
        if known.name in values:
            problems.append(f"{place}: {name} sets {known.name} a second time")
            continue
        _read_value(known, raw, place, values, problems)
    return values


def _read_settings(settings: Sequence[str], problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, raw = setting.partition("=")
        place = f"--set {setting[:100]}"
        if not equals:
            problems.append(f"{place}: expected key=value")
            continue
        known = _known(name.strip(), place, problems)
        if known is not None:
            _read_value(known, raw, place, values, problems)
    return values


def _known(name: str, place: str, problems: list[str]) -> Key | None:
    canonical = _CANONICAL.get(name)
    if canonical is None:
        problems.append(f"{place}: unknown key {name!r}{_suggestion(name)}")
        return None
    return KEYS[canonical]


def _read_value(
    known: Key, raw: object, place: str, values: dict[str, Any], problems: list[str]
) -> None:
    try:
        values[known.name] = known.read(raw)
    except ValueError as error:
        problems.append(f"{place}: {known.name}: {error}")


def _suggestion(name: str) -> str:
    lowered = {each.lower(): each for each in _CANONICAL}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"; did you mean {lowered[close[0]]}?" if close else ""


def _line_of(name: str, text: str) -> int:
    """Where a key of the table stands; close enough for a person, since TOML's parser is silent."""
    found = re.search(rf"""^\s*\[?\s*["']?{re.escape(name)}["']?\s*[=.\]]""", text, re.MULTILINE)
    return 1 if found is None else text.count("\n", 0, found.end()) + 1
