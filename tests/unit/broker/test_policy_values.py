from __future__ import annotations

from typing import Any

import pytest

from anabranch.broker.policy_json import object_reader, write
from anabranch.broker.policy_values import (
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    DispatchRate,
    InactiveMode,
    InactiveTopics,
    Persistence,
    PublishRate,
    QuotaAction,
    Retention,
    TopicKind,
)
from anabranch.topics.json_fields import Json


def read(kind: type[Any], raw: Json) -> tuple[Any, list[str]]:
    problems: list[str] = []
    return object_reader(kind)(raw, "p", problems), problems


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (Retention(10, -1), {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}),
        (
            BacklogQuota(5, -1, QuotaAction.EVICT),
            {"limitSize": 5, "limitTime": -1, "policy": "consumer_backlog_eviction"},
        ),
        (
            AutoTopicCreation(True, TopicKind.PARTITIONED, 4),
            {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 4},
        ),
        (
            PublishRate(1, 2),
            {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": 2},
        ),
        (
            DispatchRate(1, 2, True, 3),
            {
                "dispatchThrottlingRateInMsg": 1,
                "dispatchThrottlingRateInByte": 2,
                "relativeToPublishRate": True,
                "ratePeriodInSecond": 3,
            },
        ),
        (
            InactiveTopics(InactiveMode.CAUGHT_UP, 9, False),
            {
                "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
                "maxInactiveDurationSeconds": 9,
                "deleteWhileInactive": False,
            },
        ),
        (
            DelayedDelivery(False, 5, 7),
            {"active": False, "tickTime": 5, "maxDeliveryDelayInMillis": 7},
        ),
    ],
)
def test_values_have_the_json_of_the_admin_api(value: Any, raw: Json) -> None:
    assert write(value) == raw
    assert read(type(value), raw) == (value, [])


def test_what_is_left_out_has_its_default_and_unknown_keys_are_ignored() -> None:
    assert read(DispatchRate, {"dispatchThrottlingRateInMsg": 4, "x": 1}) == (DispatchRate(4), [])
    assert write(Persistence()) == {
        "bookkeeperEnsemble": 2,
        "bookkeeperWriteQuorum": 2,
        "bookkeeperAckQuorum": 2,
        "managedLedgerMaxMarkDeleteRate": -1.0,
    }


def test_values_that_go_well_together_are_read() -> None:
    raw: Json = {"bookkeeperEnsemble": 3, "managedLedgerMaxMarkDeleteRate": 5,
                 "managedLedgerStorageClassName": "x"}  # fmt: skip
    assert read(Persistence, raw) == (Persistence(3, 2, 2, 5.0, "x"), [])
    creation = AutoTopicCreation(False, TopicKind.PARTITIONED, 0)
    assert read(AutoTopicCreation, write(creation)) == (creation, [])


def test_old_clients_say_limit_for_the_size() -> None:
    quota, problems = read(BacklogQuota, {"limit": 7, "policy": "producer_exception"})
    assert (quota.limit_bytes, quota.action, problems) == (7, QuotaAction.REFUSE, [])
    assert quota.is_limited
    assert not BacklogQuota(action=QuotaAction.HOLD).is_limited


@pytest.mark.parametrize(
    ("kind", "raw", "problem"),
    [
        (Retention, [], "p: expected an object"),
        (Retention, {"retentionTimeInMinutes": 1.5, "retentionSizeInMB": 1}, "an integer"),
        (Retention, {"retentionTimeInMinutes": True, "retentionSizeInMB": 1}, "an integer"),
        (Retention, {"retentionTimeInMinutes": -2, "retentionSizeInMB": 1}, "from -1"),
        (Retention, {"retentionTimeInMinutes": 5, "retentionSizeInMB": 0}, "both"),
        (BacklogQuota, {"limitSize": 5}, "p.policy: missing"),
        (BacklogQuota, {"policy": "panic"}, "one of producer_request_hold"),
        (AutoTopicCreation, {"topicType": "partitioned", "defaultNumPartitions": 0}, "at least 1"),
        (AutoTopicCreation, {"allowAutoTopicCreation": "yes"}, "true or false"),
        (DispatchRate, {"ratePeriodInSecond": 0}, "from 1"),
        (Persistence, {"bookkeeperEnsemble": 1}, "must hold"),
        (Persistence, {"managedLedgerMaxMarkDeleteRate": float("nan")}, "a number"),
        (Persistence, {"managedLedgerMaxMarkDeleteRate": -5}, "a number from"),
        (Persistence, {"managedLedgerStorageClassName": 3}, "a string"),
    ],
)
def test_wrong_values_are_named(kind: type[Any], raw: Json, problem: str) -> None:
    value, problems = read(kind, raw)
    assert value is None
    assert len(problems) == 1
    assert problem in problems[0]
