"""Metrics that Prometheus can read, true to the live objects."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from anabranch.admin import metrics
from anabranch.admin.metrics import KNOWN, Page, Sample
from tests.admin_world import SPACE, AdminWorld, play

TOPIC = f"persistent://{SPACE}/x"


async def scraped(world: AdminWorld) -> dict[tuple[str, str, str], float]:
    reply = await world.call("GET", "//metrics/")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(reply.text):
        for each in family.samples:
            key = each.name, each.labels.get("topic", ""), each.labels.get("subscription", "")
            assert key not in found, key
            assert each.labels["cluster"] == "standalone"
            found[key] = each.value
    return found


def test_counts_and_backlogs_are_those_of_the_topics() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3, size=100)
        await world.subscribe("s")
        await world.subscribe("t")
        await world.done("POST", f"/persistent/{SPACE}/x/subscription/t/skip/2")
        found = await scraped(world)
        assert found["pulsar_broker_topics_count", "", ""] == 1
        assert found["pulsar_broker_subscriptions_count", "", ""] == 2
        assert found["pulsar_broker_msg_backlog", "", ""] == 4
        assert found["pulsar_in_messages_total", TOPIC, ""] == 3
        assert found["pulsar_in_bytes_total", TOPIC, ""] == 300
        assert found["pulsar_storage_size", TOPIC, ""] == 300
        assert found["pulsar_msg_backlog", TOPIC, ""] == 4
        assert found["pulsar_subscription_back_log", TOPIC, "s"] == 3
        assert found["pulsar_subscription_back_log", TOPIC, "t"] == 1
        assert found["pulsar_rate_in", TOPIC, ""] > 0
        assert {name for name, _, _ in found} == set(KNOWN)

    play(scenario)


def test_topics_can_be_left_out() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3)
        found = await scraped(world)
        assert {topic for _, topic, _ in found} == {""}
        assert found["anabranch_metrics_topics_omitted", "", ""] == 1

    play(scenario, "exposeTopicLevelMetricsInPrometheus=false")


def test_the_number_of_series_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_TOPICS", 2)
    monkeypatch.setattr(metrics, "MAX_SUBSCRIPTIONS", 1)

    async def scenario(world: AdminWorld) -> None:
        for number in range(4):
            await world.publish(number + 1, f"x{number}")
            await world.subscribe("s", f"x{number}")
            await world.subscribe("t", f"x{number}")
        found = await scraped(world)
        busiest = {f"persistent://{SPACE}/x{number}" for number in (2, 3)}
        assert {topic for _, topic, _ in found} == {"", *busiest}
        assert {each for _, _, each in found} == {"", "s"}
        assert found["anabranch_metrics_topics_omitted", "", ""] == 2
        assert found["pulsar_broker_topics_count", "", ""] == 4

    play(scenario)


def page(sample: Sample) -> str:
    written = Page()
    written.add(sample)
    return written.text()


def test_labels_survive_any_name() -> None:
    name = 'a"b\\c\nd'
    (family,) = text_string_to_metric_families(
        page(Sample("pulsar_rate_in", (("topic", name),), 1.5))
    )
    (sample,) = family.samples
    assert (sample.labels, sample.value) == ({"topic": name}, 1.5)


@pytest.mark.parametrize("value", [0, 12345678901234, 0.1, 1e300])
def test_values_are_written_in_full(value: Any) -> None:
    (family,) = text_string_to_metric_families(page(Sample("pulsar_rate_in", (), value)))
    assert family.samples[0].value == value
