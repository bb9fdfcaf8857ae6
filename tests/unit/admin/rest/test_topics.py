"""Persistent topics, partitions and subscriptions over REST."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.admin.rest.topic_policies import POLICIES
from anabranch.broker.compacted_topic import CompactionState
from tests.admin_world import SPACE, AdminWorld, play
from tests.managed_world import until
from tests.unit.admin.rest.test_namespaces import VALUES

TOPICS = f"/persistent/{SPACE}"
X = f"{TOPICS}/x"
P = f"{TOPICS}/p"


def full(name: str) -> str:
    return f"persistent://{SPACE}/{name}"


def test_a_topic_comes_and_goes() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", X, {"team": "a"})
        assert await world.ask(TOPICS) == [full("x")]
        assert await world.ask(f"{X}/properties") == {"team": "a"}
        await world.refused(409, "PUT", X)
        await world.done("DELETE", X)
        await world.refused(404, "DELETE", X)
        assert await world.ask(TOPICS) == []

    play(scenario)


def test_what_is_wrong_with_a_topic_has_a_status_of_its_own() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(404, "PUT", "/persistent/public/missing/x")
        await world.refused(404, "GET", "/persistent/nobody/missing")
        await world.refused(412, "PUT", f"{TOPICS}/a%2Fb")
        await world.refused(412, "PUT", f"{TOPICS}/%20x")
        await world.refused(400, "PUT", X, ["no", "map"])
        for path in ("stats", "internalStats", "lastMessageId", "properties", "subscriptions"):
            await world.refused(404, "GET", f"{X}/{path}")
        await world.refused(404, "POST", f"{X}/terminate")
        await world.refused(404, "PUT", f"{X}/unload")
        await world.refused(404, "GET", f"{X}/retention")

    play(scenario)


def test_a_topic_with_subscriptions_stays_unless_forced() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        await world.subscribe()
        assert "subscriptions" in await world.refused(412, "DELETE", X)
        await world.done("DELETE", f"{X}?force=true")
        assert await world.ask(TOPICS) == []

    play(scenario)


def test_there_are_no_more_topics_than_allowed() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("POST", f"/namespaces/{SPACE}/maxTopicsPerNamespace", 2)
        await world.refused(409, "PUT", f"{P}/partitions", 3)
        await world.done("PUT", f"{P}/partitions", 2)
        await world.refused(409, "PUT", X)

    play(scenario)


def test_properties_are_merged_and_the_brokers_own_are_hidden() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", X, {"a": "1"})
        topic = await world.topic()
        own = {"anabranch.topic-epoch": "7"}
        await topic.ledger.set_properties({**topic.ledger.record.properties, **own})
        await world.done("PUT", f"{X}/properties", {"b": "2", "anabranch.topic-epoch": "0"})
        assert await world.ask(f"{X}/properties") == {"a": "1", "b": "2"}
        await world.done("DELETE", f"{X}/properties?key=a")
        await world.done("DELETE", f"{X}/properties?key=anabranch.topic-epoch")
        assert topic.ledger.record.properties == {"b": "2", **own}

    play(scenario)


def test_a_terminated_topic_says_its_last_message() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(3)
        last = topic.ledger.last_confirmed
        expected = {"ledgerId": last.ledger, "entryId": 2, "partitionIndex": -1}
        reply = await world.call("POST", f"{X}/terminate")
        assert (reply.status_code, reply.json()) == (200, expected)
        assert await world.ask(f"{X}/lastMessageId") == expected
        assert (await world.ask(f"{X}/stats"))["isTerminated"]

    play(scenario)


def test_an_unloaded_topic_is_there_again_when_asked() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3)
        await world.done("PUT", f"{X}/unload")
        assert world.broker.catalogue.topics.loaded == {}
        await world.done("PUT", f"{X}/unload")
        assert (await world.ask(f"{X}/internalStats"))["numberOfEntries"] == 3

    play(scenario)


def test_a_compaction_runs_and_says_so() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3)
        assert (await world.ask(f"{X}/compaction"))["status"] == "NOT_RUN"
        await world.done("PUT", f"{X}/compaction")
        compacted = (await world.topic()).compacted
        await until(lambda: compacted.state is not CompactionState.RUNNING)
        assert await world.ask(f"{X}/compaction") == {"status": "SUCCESS", "lastError": ""}
        await world.refused(404, "PUT", f"{TOPICS}/missing/compaction")

    play(scenario)


# Partitions


def test_a_partitioned_topic_comes_grows_and_goes() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"{P}/partitions", 2)
        assert await world.ask(f"{P}/partitions") == {"partitions": 2}
        assert await world.ask(f"{TOPICS}/partitioned") == [full("p")]
        await world.done("POST", f"{P}/partitions", 4)
        assert await world.ask(TOPICS) == [full(f"p-partition-{each}") for each in range(4)]
        await world.done("DELETE", f"{P}/partitions")
        assert await world.ask(TOPICS) == []
        await world.refused(404, "GET", f"{P}/partitions")

    play(scenario)


def test_partitions_may_come_with_properties() -> None:
    async def scenario(world: AdminWorld) -> None:
        body = {"partitions": 2, "properties": {"team": "a"}}
        await world.done("PUT", f"{P}/partitions", body)
        assert await world.ask(f"{P}/partitions") == body
        await world.done("PUT", f"{P}/properties", {"b": "2"})
        assert await world.ask(f"{P}/properties") == {"team": "a", "b": "2"}

    play(scenario)


def test_what_is_wrong_with_partitions_has_a_status_of_its_own() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", X)
        await world.done("PUT", f"{P}/partitions", 3)
        await world.refused(409, "PUT", f"{P}/partitions", 3)
        await world.refused(409, "PUT", f"{X}/partitions", 3)
        await world.refused(409, "PUT", P)
        await world.refused(412, "PUT", f"{TOPICS}/q/partitions", 0)
        await world.refused(412, "PUT", f"{TOPICS}/q/partitions", -1)
        await world.refused(412, "PUT", f"{TOPICS}/q/partitions", 1001)
        bodies: list[Any] = [True, "3", [3], 3.5, {}]
        for body in bodies:
            await world.refused(400, "PUT", f"{TOPICS}/q/partitions", body)
        await world.refused(422, "POST", f"{P}/partitions", 2)
        await world.refused(409, "POST", f"{X}/partitions", 2)
        await world.refused(404, "POST", f"{TOPICS}/q/partitions", 2)
        await world.refused(409, "DELETE", f"{X}/partitions")
        await world.refused(404, "DELETE", f"{TOPICS}/q/partitions")
        await world.refused(409, "DELETE", P)
        await world.refused(412, "PUT", f"{TOPICS}/q-partition-0/partitions", 2)

    play(scenario, "maxNumPartitionsPerPartitionedTopic=1000")


def test_a_used_partition_keeps_the_whole_unless_forced() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"{P}/partitions", 3)
        await world.subscribe("s", "p-partition-1")
        await world.refused(412, "DELETE", f"{P}/partitions")
        assert await world.ask(f"{P}/partitions") == {"partitions": 3}
        await world.done("DELETE", f"{P}/partitions?force=true")
        assert await world.ask(TOPICS) == []

    play(scenario)


def test_new_partitions_have_the_subscriptions_of_the_old() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"{P}/partitions", 1)
        await world.done("PUT", f"{P}/subscription/s")
        await world.done("POST", f"{P}/partitions", 3)
        await world.publish(1, "p-partition-2")
        topic = await world.topic("p-partition-2")
        assert topic.subscription("s").cursor.backlog == 1

    play(scenario)


def test_partition_metadata_of_a_topic_that_would_be_made() -> None:
    async def scenario(world: AdminWorld) -> None:
        asked = await world.ask(f"{X}/partitions", checkAllowAutoCreation="true")
        assert asked == {"partitions": 0}
        await world.refused(404, "GET", f"{X}/partitions")
        policy = {
            "allowAutoTopicCreation": True,
            "topicType": "partitioned",
            "defaultNumPartitions": 3,
        }
        await world.done("POST", f"/namespaces/{SPACE}/autoTopicCreation", policy)
        asked = await world.ask(f"{X}/partitions", checkAllowAutoCreation="true")
        assert asked == {"partitions": 3} == await world.ask(f"{X}/partitions")

    play(scenario)


def test_partitioned_stats_are_the_sum_of_its_partitions() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"{P}/partitions", 2)
        for index in range(2):
            await world.subscribe("s", f"p-partition-{index}")
            await world.publish(2 + index, f"p-partition-{index}", size=100)
        stats = await world.ask(f"{P}/partitioned-stats")
        assert stats["msgInCounter"] == 5
        assert stats["storageSize"] == 500
        assert stats["subscriptions"]["s"]["msgBacklog"] == 5
        assert stats["metadata"]["partitions"] == 2
        assert stats["partitions"][full("p-partition-1")]["msgInCounter"] == 3
        brief = await world.ask(f"{P}/partitioned-stats", perPartition="false")
        assert brief["partitions"] == {}
        await world.done("PUT", X)
        await world.refused(404, "GET", f"{X}/partitioned-stats")

    play(scenario)


def test_what_is_for_one_partition_is_not_for_all() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"{P}/partitions", 2)
        await world.done("PUT", f"{P}/subscription/s")
        await world.refused(405, "POST", f"{P}/terminate")
        await world.refused(405, "POST", f"{P}/subscription/s/skip/1")
        body = {"ledgerId": 1, "entryId": 1}
        await world.refused(405, "POST", f"{P}/subscription/s/resetcursor", body)
        await world.refused(405, "GET", f"{P}/stats")
        await world.done("PUT", X)
        await world.refused(405, "POST", f"{X}/terminate/partitions")

    play(scenario)


def test_all_partitions_are_terminated_together() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"{P}/partitions", 2)
        await world.publish(2, "p-partition-1")
        reply = await world.call("POST", f"{P}/terminate/partitions")
        assert reply.status_code == 200
        assert reply.json()["1"]["entryId"] == 1
        assert reply.json()["1"]["partitionIndex"] == 1
        assert sorted(reply.json()) == ["0", "1"]

    play(scenario)


# Subscriptions


def test_a_subscription_comes_and_goes() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3)
        await world.done("PUT", f"{X}/subscription/end")
        await world.done("PUT", f"{X}/subscription/start", {"ledgerId": -1, "entryId": -1})
        await world.done("PUT", f"{X}/subscription/a%2Fb%20c", "earliest")
        latest = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1, "properties": {"k": "v"}}
        await world.done("PUT", f"{X}/subscription/latest", latest)
        assert await world.ask(f"{X}/subscriptions") == ["a/b c", "end", "latest", "start"]
        stats = (await world.ask(f"{X}/stats"))["subscriptions"]
        backlogs = {name: each["msgBacklog"] for name, each in stats.items()}
        assert backlogs == {"a/b c": 3, "end": 0, "latest": 0, "start": 3}
        assert stats["latest"]["subscriptionProperties"] == {"k": "v"}
        await world.done("DELETE", f"{X}/subscription/a%2Fb%20c")
        await world.refused(404, "DELETE", f"{X}/subscription/a%2Fb%20c")

    play(scenario)


def test_what_is_wrong_with_a_subscription_has_a_status_of_its_own() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(404, "PUT", f"{X}/subscription/s")
        await world.publish(1)
        await world.subscribe()
        await world.refused(409, "PUT", f"{X}/subscription/s")
        await world.refused(412, "PUT", f"{X}/subscription/%20")
        await world.refused(409, "PUT", f"{X}/subscription/r?replicated=true")
        await world.refused(400, "PUT", f"{X}/subscription/r", "sometime")
        await world.refused(400, "PUT", f"{X}/subscription/r", {"ledgerId": "1"})
        await world.refused(409, "PUT", f"{X}/subscription/pulsar.dedup")
        for path in ("skip_all", "skip/1", "expireMessages/1", "resetcursor/1"):
            await world.refused(404, "POST", f"{X}/subscription/nobody/{path}")
        await world.refused(400, "POST", f"{X}/subscription/s/skip/x")
        await world.refused(412, "POST", f"{X}/subscription/s/skip/-1")
        await world.refused(412, "POST", f"{X}/subscription/s/expireMessages/-1")

    play(scenario)


def test_no_more_subscriptions_than_allowed() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        await world.subscribe()
        await world.done("POST", f"{X}/maxSubscriptionsPerTopic", 1)
        await world.refused(412, "PUT", f"{X}/subscription/another")

    play(scenario)


def test_skipping_goes_forward_by_what_is_unacknowledged() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10)
        await world.subscribe()
        cursor = topic.subscription("s").cursor
        first = topic.ledger.first_position
        assert first is not None
        cursor.acknowledge([first.next()])
        await world.done("POST", f"{X}/subscription/s/skip/2")
        assert cursor.backlog == 7
        await world.done("POST", f"{X}/subscription/s/skip/0")
        assert cursor.backlog == 7
        await world.done("POST", f"{X}/subscription/s/skip/{2**40}")
        assert cursor.backlog == 0

    play(scenario)


def test_everything_is_skipped_on_every_partition() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"{P}/partitions", 2)
        await world.done("PUT", f"{P}/subscription/s", "earliest")
        await world.publish(2, "p-partition-0")
        await world.publish(2, "p-partition-1")
        await world.done("POST", f"{P}/subscription/s/skip_all")
        stats = await world.ask(f"{P}/partitioned-stats")
        assert stats["subscriptions"]["s"]["msgBacklog"] == 0

    play(scenario)


def test_old_messages_expire_when_told() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10)  # the last one was published now
        await world.subscribe()
        await world.subscribe("t")
        await world.done("POST", f"{X}/subscription/s/expireMessages/3")
        assert topic.subscription("s").cursor.backlog == 4
        assert topic.subscription("t").cursor.backlog == 10
        await world.done("POST", f"{X}/all_subscription/expireMessages/3")
        assert topic.subscription("t").cursor.backlog == 4
        stats = await world.ask(f"{X}/stats")
        assert stats["subscriptions"]["s"]["totalMsgExpired"] == 6

    play(scenario)


def test_a_cursor_is_reset_to_a_time() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10)
        await world.subscribe()
        cursor = topic.subscription("s").cursor
        for time_ms, backlog in ((world.clock.now_ms - 3000, 4), (0, 10), (2**62, 0)):
            await world.done("POST", f"{X}/subscription/s/resetcursor/{time_ms}")
            assert cursor.backlog == backlog

    play(scenario)


def test_a_cursor_is_reset_to_a_message() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10)
        await world.subscribe()
        cursor, ledger = topic.subscription("s").cursor, topic.ledger.last_confirmed.ledger
        reset = f"{X}/subscription/s/resetcursor"
        await world.done("POST", reset, {"ledgerId": ledger, "entryId": 4})
        assert cursor.backlog == 6
        await world.done("POST", reset, {"ledgerId": ledger, "entryId": 4, "isExcluded": True})
        assert cursor.backlog == 5
        await world.done("POST", reset, {"ledgerId": -1, "entryId": -1})
        assert cursor.backlog == 10
        await world.refused(412, "POST", reset, {"ledgerId": 10**6, "entryId": 0})
        await world.refused(400, "POST", reset, {"ledgerId": ledger})
        await world.refused(400, "POST", reset)

    play(scenario)


def test_properties_of_a_subscription_are_replaced() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        await world.subscribe()
        path = f"{X}/subscription/s/properties"
        await world.done("PUT", path, {"a": "1"})
        assert await world.ask(path) == {"a": "1"}
        await world.done("DELETE", path)
        assert await world.ask(path) == {}

    play(scenario)


# Policies of topics

NAMES = {
    "deduplicationEnabled": "deduplication",
}


@pytest.mark.parametrize("policy", POLICIES, ids=lambda each: each.element)
def test_a_policy_is_set_read_and_unset(policy: Any) -> None:
    value = VALUES.get(NAMES.get(policy.element, policy.element), 77)

    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", X)
        path = f"{X}/{policy.element}"
        assert (await world.call("GET", path)).status_code == 204
        await world.done(policy.method, path, value)
        assert await world.ask(path) == value
        assert await world.ask(path, applied="true") == value
        await world.done("DELETE", path)
        assert (await world.call("GET", path)).status_code == 204

    play(scenario)


def test_a_time_to_live_may_come_in_the_query() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(1)
        await world.done("POST", f"{X}/messageTTL?messageTTL=30")
        assert topic.policies.message_ttl_seconds == 30
        await world.refused(400, "POST", f"{X}/messageTTL?messageTTL=x")

    play(scenario)


def test_policies_of_a_topic_hold_for_its_partitions_and_go_with_it() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"{P}/partitions", 2)
        await world.done("POST", f"{P}/maxProducers", 3)
        topic = await world.topic("p-partition-1")
        assert topic.policies.max_producers_per_topic == 3
        await world.done("DELETE", f"{P}/partitions")
        await world.done("PUT", f"{P}/partitions", 2)
        assert (await world.call("GET", f"{P}/maxProducers")).status_code == 204

    play(scenario)


def test_policies_of_topics_can_be_switched_off() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", X)
        await world.refused(405, "POST", f"{X}/maxProducers", 3)
        await world.refused(405, "GET", f"{X}/maxProducers")

    play(scenario, "topicLevelPoliciesEnabled=false")
