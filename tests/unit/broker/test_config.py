from __future__ import annotations

from typing import Any

import pytest

from anabranch.broker.config import (
    DYNAMIC_KEYS,
    KEYS,
    Config,
    contradictions,
    load_config,
    read_config,
)
from anabranch.broker.config_keys import show
from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.policy_values import (
    BacklogQuota,
    InactiveMode,
    QuotaAction,
    Retention,
    TopicKind,
)
from anabranch.broker.schemas.compatibility import Strategy
from anabranch.errors import InvalidInput, NotFound


def test_nothing_said_is_the_defaults() -> None:
    assert load_config() == Config()
    assert contradictions(Config()) == []


def test_file_then_settings_then_the_last_of_them() -> None:
    text = "brokerServicePort = 1\nwebServicePort = 2\nclusterName = 'x'\n"
    config = load_config(text, ["webServicePort=3", "clusterName=y", "clusterName=z"])
    assert (config.server.port, config.server.http_port) == (1, 3)
    assert config.server.cluster == "z"


def test_value_may_contain_an_equals_sign() -> None:
    url = "sqlite:/data/file.db?shared=1"
    assert load_config("", [f"metadataStoreUrl={url}"]).metadata.url == url


@pytest.mark.parametrize("url", ["etcd:host", "oxia://", "memory:"])
def test_store_that_we_do_not_have_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput, match="metadataStoreUrl: expected sqlite:"):
        load_config("", [f"metadataStoreUrl={url}"])


@pytest.mark.parametrize(
    ("alias", "value", "key", "expected"),
    [
        ("scalableTopicEnabled", "false", "scalableTopicsEnabled", False),
        ("scalableTopicAutoScaleInterval", "60s", "scalableTopicAutoScaleIntervalSeconds", 60),
        ("scalableTopicSplitCooldown", "1m", "scalableTopicSplitCooldownSeconds", 60),
        ("scalableTopicMergeCooldown", "5m", "scalableTopicMergeCooldownSeconds", 300),
        ("scalableTopicMergeWindow", "5m", "scalableTopicMergeWindowSeconds", 300),
        ("scalableTopicLoadReportInterval", "10s", "scalableTopicLoadReportIntervalSeconds", 10),
        (
            "scalableTopicSplitBytesRateInThreshold",
            "50MB",
            "scalableTopicSplitBytesRateInThreshold",
            50_000_000,
        ),
        (
            "scalableTopicLoadReportRateChangeThreshold",
            "25%",
            "scalableTopicLoadReportRateChangeThreshold",
            0.25,
        ),
    ],
)
def test_spellings_and_values_of_the_proposals_are_taken(
    alias: str, value: str, key: str, expected: Any
) -> None:
    assert load_config("", [f"{alias}={value}"]).value_of(key) == expected
    assert load_config(f'{alias} = "{value}"').value_of(key) == expected


def test_every_mistake_is_told_at_once_with_its_place() -> None:
    text = "\n".join(
        [
            "# a comment about maxMessageSize",
            "brokerServiePort = 6650",
            "maxMessageSize = -1",
            "'keepAliveIntervalSeconds' = 'soon'",
            "scalableTopicEnabled = true",
            "scalableTopicsEnabled = true",
            "qqqqqqqqqqqqqqq = 1",
            "[server]",
            "port = 3",
        ]
    )
    with pytest.raises(InvalidInput) as caught:
        load_config(text, ["nonsense", "CLUSTERNAME=x", "webServicePort=99999"], file="b.toml")
    assert str(caught.value).splitlines() == [
        "9 mistakes in the configuration:",
        "  b.toml:2: unknown key 'brokerServiePort'; did you mean brokerServicePort?",
        "  b.toml:3: maxMessageSize: expected bytes (or 64KiB, 50MB, 1GiB) "
        "from 1024 to 1073741824, got -1",
        "  b.toml:4: keepAliveIntervalSeconds: expected seconds (or 500ms, 60s, 5m, 1h, 1d) "
        "from 1, got 'soon'",
        "  b.toml:6: scalableTopicsEnabled sets scalableTopicsEnabled a second time",
        "  b.toml:7: unknown key 'qqqqqqqqqqqqqqq'",
        "  b.toml:8: [server]: all keys stand at the top, outside of tables",
        "  --set nonsense: expected key=value",
        "  --set CLUSTERNAME=x: unknown key 'CLUSTERNAME'; did you mean clusterName?",
        "  --set webServicePort=99999: webServicePort: expected an integer from 0 to 65535, "
        "got '99999'",
    ]


def test_broken_toml_is_told_with_its_line_beside_the_settings() -> None:
    _, problems = read_config("a = 1\nb = = 2\n", ["x"], file="b.toml")
    assert len(problems) == 2
    assert problems[0].startswith("b.toml: not TOML:")
    assert "line 2" in problems[0]


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (["scalableTopicMinSegments=9", "scalableTopicMaxSegments=8"], "scalableTopicMinSegments"),
        (["scalableTopicSplitMsgRateInThreshold=1000"], "scalableTopicMergeMsgRateInThreshold"),
        (["scalableTopicMergeBytesRateOutThreshold=250MB"], "BytesRateOutThreshold"),
        (["managedLedgerMinLedgerRolloverTimeMinutes=241"], "RolloverTime"),
        (["pulsarChannelWriteBufferLowWaterMark=1MB"], "LowWaterMark"),
        (["webServicePort=6650"], "both 6650"),
        (["maxMessageSize=128MiB"], "journalFileSizeMB"),
        (["defaultRetentionSizeInMB=5"], "both"),
    ],
)
def test_values_that_contradict_each_other_are_refused(settings: list[str], part: str) -> None:
    with pytest.raises(InvalidInput, match=part):
        load_config("", settings)


def test_two_ports_picked_freely_do_not_clash() -> None:
    load_config("", ["brokerServicePort=0", "webServicePort=0"])


def test_table_shows_every_key_as_text_that_is_read_back() -> None:
    config = load_config(
        "",
        [
            "subscriptionTypesEnabled=Shared,Exclusive",
            "backlogQuotaDefaultRetentionPolicy=producer_exception",
            "scalableTopicLoadReportRateChangeThreshold=30%",
        ],
    )
    table = config.to_table()
    assert list(table) == sorted(KEYS)
    assert table["subscriptionTypesEnabled"] == "Exclusive,Shared"
    assert table["allowAutoTopicCreation"] == "true"
    assert load_config("", [f"{name}={value}" for name, value in table.items()]) == config


@pytest.mark.parametrize("name", sorted(KEYS))
def test_defaults_are_legal_values(name: str) -> None:
    key = KEYS[name]
    assert key.read(show(key.default)) == key.default


def test_dynamic_key_changes_while_the_broker_runs() -> None:
    changed = Config().with_dynamic("maxUnackedMessagesPerConsumer", "7")
    assert changed.topics.max_unacked_per_consumer == 7
    assert "maxUnackedMessagesPerConsumer" in DYNAMIC_KEYS
    assert "brokerServicePort" not in DYNAMIC_KEYS


def test_other_keys_do_not() -> None:
    with pytest.raises(NotFound, match="did you mean clusterName"):
        Config().with_dynamic("clusterNam", "x")
    with pytest.raises(InvalidInput, match="restart"):
        Config().with_dynamic("clusterName", "x")
    with pytest.raises(InvalidInput, match="expected an integer"):
        Config().with_dynamic("maxUnackedMessagesPerConsumer", "x")
    with pytest.raises(InvalidInput, match="scalableTopicMinSegments"):
        Config().with_dynamic("scalableTopicMinSegments", "65")


def test_policies_of_an_unconfigured_broker_are_the_defaults() -> None:
    found = Config().policies()
    assert found.retention == Retention(0, 0)
    assert found.max_message_bytes == 5 * 1024 * 1024
    assert found.inactive_topics == EffectivePolicies().inactive_topics
    assert found.schema_strategy is Strategy.FULL
    assert not found.size_quota.is_limited


def test_policies_follow_the_configuration() -> None:
    config = load_config(
        "",
        [
            "defaultRetentionTimeInMinutes=60",
            "defaultRetentionSizeInMB=-1",
            "backlogQuotaDefaultLimitGB=2",
            "backlogQuotaDefaultLimitSecond=90",
            "backlogQuotaDefaultRetentionPolicy=consumer_backlog_eviction",
            "allowAutoTopicCreationType=partitioned",
            "defaultNumPartitions=4",
            "brokerDeleteInactiveTopicsMode=delete_when_subscriptions_caught_up",
            "brokerDeleteInactiveTopicsFrequencySeconds=5",
            "schemaCompatibilityStrategy=UNDEFINED",
        ],
    )
    found = config.policies()
    assert found.retention == Retention(60, -1)
    assert found.size_quota == BacklogQuota(2 << 30, -1, QuotaAction.EVICT)
    assert found.age_quota == BacklogQuota(-1, 90, QuotaAction.EVICT)
    assert found.auto_topic_creation.kind is TopicKind.PARTITIONED
    assert found.auto_topic_creation.partitions == 4
    assert found.inactive_topics.mode is InactiveMode.CAUGHT_UP
    assert found.inactive_topics.max_inactive_seconds == 5
    assert found.schema_strategy is Strategy.FULL


def test_quota_in_bytes_wins_over_the_one_in_gigabytes() -> None:
    config = load_config("", ["backlogQuotaDefaultLimitGB=2", "backlogQuotaDefaultLimitBytes=5"])
    assert config.policies().size_quota.limit_bytes == 5
