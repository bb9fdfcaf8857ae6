"""The broker itself over REST: health, configuration, statistics, lookup, metrics."""

from __future__ import annotations

import anabranch
from tests.admin_world import SPACE, AdminWorld, play

KEY = "brokerDeleteInactiveTopicsEnabled"


def test_a_broker_says_who_and_how_it_is() -> None:
    async def scenario(world: AdminWorld) -> None:
        assert await world.ask("/brokers") == ["broker:8080"]
        assert await world.ask("/brokers/standalone") == ["broker:8080"]
        await world.refused(404, "GET", "/brokers/mars")
        assert await world.ask("/brokers/leaderBroker") == {
            "brokerId": "broker:8080",
            "serviceUrl": "http://broker:8080",
        }
        for path in ("health", "ready"):
            assert (await world.call("GET", f"/brokers/{path}")).text == "ok"
        assert (await world.call("GET", "/brokers/version")).text == anabranch.__version__
        assert (await world.call("GET", "//status.html")).text == "OK"

    play(scenario)


def test_a_broker_that_stops_is_not_well() -> None:
    async def scenario(world: AdminWorld) -> None:
        world.broker.is_draining = True
        for path in ("/brokers/health", "/brokers/ready", "//status.html"):
            await world.refused(503, "GET", path)
        await world.refused(503, "GET", f"//lookup/v2/topic/persistent/{SPACE}/x")

    play(scenario)


def test_settings_change_while_it_runs() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(1)
        assert KEY in await world.ask("/brokers/configuration")
        assert (await world.ask("/brokers/configuration/runtime"))[KEY] == "true"
        await world.done("POST", f"/brokers/configuration/{KEY}/false")
        assert topic.policies.inactive_topics.is_deletion_on is False
        assert await world.ask("/brokers/configuration/values") == {KEY: "false"}
        await world.done("DELETE", f"/brokers/configuration/{KEY}")
        assert topic.policies.inactive_topics.is_deletion_on is True

    play(scenario)


def test_a_setting_that_cannot_change_is_refused() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(412, "POST", "/brokers/configuration/nonsense/1")
        await world.refused(412, "POST", "/brokers/configuration/brokerServicePort/1")
        await world.refused(412, "POST", f"/brokers/configuration/{KEY}/perhaps")
        await world.refused(412, "DELETE", f"/brokers/configuration/{KEY}")

    play(scenario)


def test_a_topic_is_looked_up_if_it_exists_or_would() -> None:
    async def scenario(world: AdminWorld) -> None:
        lookup = f"//lookup/v2/topic/persistent/{SPACE}"
        assert await world.ask(f"{lookup}/x") == {
            "brokerUrl": "pulsar://broker:6650",
            "brokerUrlTls": "",
            "httpUrl": "http://broker:8080",
            "nativeUrl": "pulsar://broker:6650",
        }
        bundle = await world.call("GET", f"{lookup}/x/bundle")
        assert bundle.text == "0x00000000_0x40000000"
        await world.done("PUT", f"/persistent/{SPACE}/there")
        await world.done("PUT", f"/persistent/{SPACE}/p/partitions", 2)
        off = {"allowAutoTopicCreation": False}
        await world.done("POST", f"/namespaces/{SPACE}/autoTopicCreation", off)
        await world.refused(404, "GET", f"{lookup}/x")
        for name in ("there", "p", "p-partition-0"):
            await world.ask(f"{lookup}/{name}")
        await world.refused(404, "GET", "//lookup/v2/topic/persistent/public/missing/x")
        await world.refused(409, "GET", f"//lookup/v2/topic/non-persistent/{SPACE}/x")
        await world.refused(412, "GET", f"//lookup/v2/topic/martian/{SPACE}/x")

    play(scenario)


def test_statistics_of_everything() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3)
        await world.subscribe()
        found = await world.ask("/broker-stats/topics")
        (bundle,) = found[SPACE].values()
        assert bundle["persistent"][f"persistent://{SPACE}/x"]["msgInCounter"] == 3
        report = await world.ask("/broker-stats/load-report")
        assert (report["numTopics"], report["numProducers"]) == (1, 0)
        samples = await world.ask("/broker-stats/metrics")
        assert {"pulsar_broker_topics_count": 1} in [each["metrics"] for each in samples]

    play(scenario)
