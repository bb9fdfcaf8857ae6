"""Namespaces over REST."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.admin.rest.namespace_policies import POLICIES
from tests.admin_world import SPACE, AdminWorld, play

HOME = f"/namespaces/{SPACE}"


def test_a_namespace_comes_and_goes() -> None:
    async def scenario(world: AdminWorld) -> None:
        reply = await world.call(
            "PUT", "/namespaces/public/n", headers={"content-type": "application/json"}
        )
        assert reply.status_code == 204
        assert await world.ask("/namespaces/public") == ["public/default", "public/n"]
        assert (await world.ask("/namespaces/public/n/bundles"))["numBundles"] == 4
        await world.done("DELETE", "/namespaces/public/n")
        await world.refused(404, "GET", "/namespaces/public/n")

    play(scenario)


def test_a_namespace_is_made_with_bundles_and_policies() -> None:
    async def scenario(world: AdminWorld) -> None:
        body = {"bundles": {"numBundles": 2, "boundaries": []}, "message_ttl_in_seconds": 7}
        await world.done("PUT", "/namespaces/public/n", body)
        found = await world.ask("/namespaces/public/n")
        assert found["bundles"]["boundaries"] == ["0x00000000", "0x80000000", "0xffffffff"]
        assert found["message_ttl_in_seconds"] == 7

    play(scenario)


def test_what_is_wrong_with_a_namespace_has_a_status_of_its_own() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(409, "PUT", HOME)
        await world.refused(404, "PUT", "/namespaces/nobody/n")
        await world.refused(412, "PUT", "/namespaces/public/a%2Fb")
        await world.refused(412, "PUT", "/namespaces/public/n", {"bundles": {"numBundles": 10**6}})
        await world.refused(404, "GET", "/namespaces/nobody")
        await world.refused(404, "DELETE", "/namespaces/public/n")
        await world.refused(404, "GET", "/namespaces/public/n/topics")

    play(scenario)


def test_a_namespace_with_topics_stays_unless_forced() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        await world.done("PUT", f"/persistent/{SPACE}/p/partitions", 2)
        assert "x" in await world.refused(409, "DELETE", HOME)
        await world.done("DELETE", f"{HOME}?force=true")
        await world.refused(404, "GET", HOME)
        assert world.broker.catalogue.topics.loaded == {}

    play(scenario, "forceDeleteNamespaceAllowed=true")


def test_force_is_refused_where_it_is_not_allowed() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(405, "DELETE", f"{HOME}?force=true")

    play(scenario)


def test_topics_are_listed_with_their_partitions() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        await world.done("PUT", f"/persistent/{SPACE}/p/partitions", 2)
        listed = [
            f"persistent://{SPACE}/{each}" for each in ("p-partition-0", "p-partition-1", "x")
        ]
        assert await world.ask(f"{HOME}/topics") == listed
        assert await world.ask(f"{HOME}/topics", mode="ALL") == listed
        assert await world.ask(f"{HOME}/topics", mode="NON_PERSISTENT") == []
        assert await world.ask(f"/non-persistent/{SPACE}") == []
        await world.refused(400, "GET", f"{HOME}/topics?mode=some")

    play(scenario)


VALUES: dict[str, Any] = {
    "retention": {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20},
    "autoTopicCreation": {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": 3,
    },
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": False},
    "persistence": {
        "bookkeeperEnsemble": 3,
        "bookkeeperWriteQuorum": 2,
        "bookkeeperAckQuorum": 2,
        "managedLedgerMaxMarkDeleteRate": 1.0,
    },
    "publishRate": {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": -1},
    "dispatchRate": {
        "dispatchThrottlingRateInMsg": 5,
        "dispatchThrottlingRateInByte": 6,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    },
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 5, "ratePeriodInSecond": 30},
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
        "maxInactiveDurationSeconds": 5,
        "deleteWhileInactive": True,
    },
    "delayedDelivery": {"active": True, "tickTime": 7, "maxDeliveryDelayInMillis": 9},
    "schemaCompatibilityStrategy": "BACKWARD",
    "subscriptionTypesEnabled": ["Exclusive", "Shared"],
    "deduplication": True,
    "encryptionRequired": True,
    "schemaValidationEnforced": True,
    "isAllowAutoUpdateSchema": False,
}
VALUES["subscriptionDispatchRate"] = VALUES["dispatchRate"]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda each: each.element)
def test_a_policy_is_set_read_and_unset(policy: Any) -> None:
    value = VALUES.get(policy.element, 77)

    async def scenario(world: AdminWorld) -> None:
        path = f"{HOME}/{policy.element}"
        assert (await world.call("GET", path)).status_code == 204
        before = await world.ask(path, applied="true")
        await world.done(policy.method, path, value)
        assert await world.ask(path) == value
        assert await world.ask(path, applied="true") == value != before
        await world.done("DELETE", path)
        assert (await world.call("GET", path)).status_code == 204
        await world.refused(412, policy.method, path, {"no": "such"} if value == 77 else 3.5)
        await world.refused(400, policy.method, path)
        await world.refused(404, "GET", path.replace("default", "missing"))

    play(scenario)


def test_backlog_quotas_are_set_one_by_one() -> None:
    async def scenario(world: AdminWorld) -> None:
        quota = {"limitSize": 1000, "limitTime": -1, "policy": "producer_exception"}
        age = {"limitSize": -1, "limitTime": 60, "policy": "consumer_backlog_eviction"}
        await world.done("POST", f"{HOME}/backlogQuota", quota)
        await world.done("POST", f"{HOME}/backlogQuota?backlogQuotaType=message_age", age)
        assert await world.ask(f"{HOME}/backlogQuotaMap") == {
            "destination_storage": quota,
            "message_age": age,
        }
        await world.done("DELETE", f"{HOME}/backlogQuota?backlogQuotaType=message_age")
        assert await world.ask(f"{HOME}/backlogQuotaMap") == {"destination_storage": quota}
        await world.refused(412, "POST", f"{HOME}/backlogQuota", {"limitSize": 1})
        await world.refused(412, "POST", f"{HOME}/backlogQuota?backlogQuotaType=x", quota)

    play(scenario)


def test_policies_that_contradict_one_another_are_refused() -> None:
    async def scenario(world: AdminWorld) -> None:
        quota = {"limitSize": 10 << 20, "policy": "producer_exception"}
        await world.done("POST", f"{HOME}/backlogQuota", quota)
        reason = await world.refused(412, "POST", f"{HOME}/retention", VALUES["retention"] | {
            "retentionSizeInMB": 5
        })  # fmt: skip
        assert "must be more than the backlog quota" in reason

    play(scenario)


def test_a_changed_policy_holds_for_topics_that_are_loaded() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(3)
        assert topic.deduplication is None
        await world.done("POST", f"{HOME}/deduplication", True)
        assert topic.deduplication is not None
        await world.done("POST", f"{HOME}/maxProducersPerTopic", 2)
        assert topic.policies.max_producers_per_topic == 2
        await world.done("DELETE", f"{HOME}/deduplication")
        assert topic.deduplication is None
        assert topic.ledger.cursors.names == []

    play(scenario)


def test_unloading_a_namespace_unloads_its_topics() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3)
        await world.done("PUT", f"{HOME}/unload")
        assert world.broker.catalogue.topics.loaded == {}
        stats = await world.ask(f"/persistent/{SPACE}/x/internalStats")
        assert stats["numberOfEntries"] == 3
        await world.done("PUT", f"{HOME}/0x00000000_0x40000000/unload")
        await world.refused(412, "PUT", f"{HOME}/0x1_0x2/unload")

    play(scenario)


def test_a_backlog_is_cleared_on_every_topic() -> None:
    async def scenario(world: AdminWorld) -> None:
        for name in ("x", "y"):
            await world.publish(3, name)
            await world.subscribe("s", name)
            await world.subscribe("kept", name)
        await world.done("POST", f"{HOME}/clearBacklog/s")
        for name in ("x", "y"):
            topic = await world.topic(name)
            assert topic.subscription("s").cursor.backlog == 0
            assert topic.subscription("kept").cursor.backlog == 3
        await world.done("POST", f"{HOME}/clearBacklog")
        assert (await world.topic()).subscription("kept").cursor.backlog == 0
        await world.done("POST", f"{HOME}/unsubscribe/s")
        assert await world.ask(f"/persistent/{SPACE}/y/subscriptions") == ["kept"]

    play(scenario)


def test_properties_and_permissions_are_kept() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"{HOME}/properties", {"a": "1"})
        await world.done("PUT", f"{HOME}/properties", {"b": "2"})
        assert await world.ask(f"{HOME}/properties") == {"a": "1", "b": "2"}
        await world.done("DELETE", f"{HOME}/properties")
        assert await world.ask(f"{HOME}/properties") == {}
        await world.done("POST", f"{HOME}/permissions/ann", ["produce", "consume"])
        assert await world.ask(f"{HOME}/permissions") == {"ann": ["consume", "produce"]}
        await world.done("DELETE", f"{HOME}/permissions/ann")
        assert await world.ask(f"{HOME}/permissions") == {}
        await world.refused(412, "POST", f"{HOME}/permissions/ann", ["fly"])
        await world.refused(400, "POST", f"{HOME}/permissions/ann", "produce")

    play(scenario)


def test_a_namespace_stays_in_its_clusters() -> None:
    async def scenario(world: AdminWorld) -> None:
        assert await world.ask(f"{HOME}/replication") == ["standalone"]
        await world.done("POST", f"{HOME}/replication", ["standalone"])
        await world.refused(412, "POST", f"{HOME}/replication", ["mars"])

    play(scenario)
