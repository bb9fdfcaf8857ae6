"""Metrics in Prometheus' text format, computed from the live objects whenever somebody asks.

Names are upstream's where it has them. Topics and subscriptions are labels, so the number of
series grows with them: `exposeTopicLevelMetricsInPrometheus` turns them off, and beyond
MAX_TOPICS the quietest topics are left out and counted in `anabranch_metrics_topics_omitted`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from anabranch.broker.config import Config
from anabranch.broker.server import Broker
from anabranch.broker.topic import Topic
from anabranch.broker.topic_stats import (
    delayed_entries,
    is_blocked,
    storage_size,
    subscription_backlog_bytes,
    topic_backlog_bytes,
    unacked_messages,
)
from anabranch.topics.json_fields import Json

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MAX_TOPICS: Final = 10_000
MAX_SUBSCRIPTIONS: Final = 1_000  # of one topic
PAUSE_SAMPLES: Final = 2_000

Labels = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    name: str
    kind: str  # gauge or counter
    meaning: str


class Sample(NamedTuple):
    name: str
    labels: Labels
    value: float


BROKER_METRICS: Final = (
    Metric("pulsar_broker_topics_count", "gauge", "topics loaded"),
    Metric("pulsar_broker_subscriptions_count", "gauge", "subscriptions of loaded topics"),
    Metric("pulsar_broker_producers_count", "gauge", "producers connected"),
    Metric("pulsar_broker_consumers_count", "gauge", "consumers connected"),
    Metric("pulsar_broker_rate_in", "gauge", "messages published a second"),
    Metric("pulsar_broker_rate_out", "gauge", "messages delivered a second"),
    Metric("pulsar_broker_throughput_in", "gauge", "bytes published a second"),
    Metric("pulsar_broker_throughput_out", "gauge", "bytes delivered a second"),
    Metric("pulsar_broker_storage_size", "gauge", "bytes stored of loaded topics"),
    Metric("pulsar_broker_msg_backlog", "gauge", "entries not acknowledged, all subscriptions"),
    Metric("pulsar_active_connections", "gauge", "connections of clients"),
    Metric("anabranch_publish_buffer_bytes", "gauge", "received and not stored yet"),
    Metric("anabranch_metrics_topics_omitted", "gauge", "loaded topics without series of theirs"),
)
TOPIC_METRICS: Final = (
    Metric("pulsar_rate_in", "gauge", "messages published a second"),
    Metric("pulsar_rate_out", "gauge", "messages delivered a second"),
    Metric("pulsar_throughput_in", "gauge", "bytes published a second"),
    Metric("pulsar_throughput_out", "gauge", "bytes delivered a second"),
    Metric("pulsar_in_messages_total", "counter", "messages published since it was loaded"),
    Metric("pulsar_in_bytes_total", "counter", "bytes published since it was loaded"),
    Metric("pulsar_out_messages_total", "counter", "messages delivered since it was loaded"),
    Metric("pulsar_out_bytes_total", "counter", "bytes delivered since it was loaded"),
    Metric("pulsar_average_msg_size", "gauge", "bytes of a message, over the last minute"),
    Metric("pulsar_storage_size", "gauge", "bytes stored"),
    Metric("pulsar_storage_backlog_size", "gauge", "bytes not acknowledged by the slowest"),
    Metric("pulsar_msg_backlog", "gauge", "entries not acknowledged, all subscriptions"),
    Metric("pulsar_producers_count", "gauge", "producers connected"),
    Metric("pulsar_consumers_count", "gauge", "consumers connected"),
    Metric("pulsar_subscriptions_count", "gauge", "subscriptions"),
)
SUBSCRIPTION_METRICS: Final = (
    Metric("pulsar_subscription_back_log", "gauge", "entries not acknowledged"),
    Metric("pulsar_subscription_back_log_no_delayed", "gauge", "the same without delayed ones"),
    Metric("pulsar_subscription_delayed", "gauge", "entries that wait for their time"),
    Metric("pulsar_subscription_backlog_size", "gauge", "bytes not acknowledged"),
    Metric("pulsar_subscription_msg_rate_out", "gauge", "messages delivered a second"),
    Metric("pulsar_subscription_msg_throughput_out", "gauge", "bytes delivered a second"),
    Metric("pulsar_subscription_msg_rate_redeliver", "gauge", "messages asked for again a second"),
    Metric("pulsar_subscription_msg_rate_expired", "gauge", "messages expired a second"),
    # A gauge to upstream, whose name could not be kept for a counter.
    Metric("pulsar_subscription_total_msg_expired", "gauge", "messages expired"),
    Metric("pulsar_subscription_unacked_messages", "gauge", "delivered and not acknowledged"),
    Metric("pulsar_subscription_blocked_on_unacked_messages", "gauge", "1 if at its limit"),
    Metric("pulsar_subscription_consumers_count", "gauge", "consumers connected"),
    Metric("pulsar_out_messages_total", "counter", "messages delivered since it was loaded"),
    Metric("pulsar_out_bytes_total", "counter", "bytes delivered since it was loaded"),
)


@dataclass(frozen=True, slots=True)
class Totals:
    topics: int = 0
    subscriptions: int = 0
    producers: int = 0
    consumers: int = 0
    rate_in: float = 0.0
    rate_out: float = 0.0
    throughput_in: float = 0.0
    throughput_out: float = 0.0
    storage: int = 0
    backlog: int = 0


def broker_totals(broker: Broker) -> Totals:
    now = broker.world.clock.monotonic()
    topics = list(broker.catalogue.topics.loaded.values())
    subscriptions = [each for topic in topics for each in topic.subscriptions.values()]
    rates_in = [topic.meter.rate(now) for topic in topics]
    rates_out = [each.meter.rate(now) for each in subscriptions]
    return Totals(
        topics=len(topics),
        subscriptions=len(subscriptions),
        producers=sum(len(topic.producers) for topic in topics),
        consumers=sum(len(each.consumers) for each in subscriptions),
        rate_in=sum(each.messages for each in rates_in),
        rate_out=sum(each.messages for each in rates_out),
        throughput_in=sum(each.bytes for each in rates_in),
        throughput_out=sum(each.bytes for each in rates_out),
        storage=sum(storage_size(topic) for topic in topics),
        backlog=sum(each.cursor.backlog for each in subscriptions),
    )


async def render_metrics(broker: Broker, config: Config) -> str:
    page = Page()
    for number, sample in enumerate(collect(broker, by_topic=config.metrics.by_topic)):
        page.add(sample)
        if number % PAUSE_SAMPLES == 0:
            # Thousands of topics must not keep the loop from its sockets.
            await asyncio.sleep(0)
    return page.text()


def samples_json(broker: Broker) -> list[Json]:
    return [
        {"metrics": {each.name: each.value}, "dimensions": dict(each.labels)}
        for each in collect(broker)
    ]


def collect(broker: Broker, *, by_topic: bool = True) -> Iterator[Sample]:
    cluster = ("cluster", broker.catalogue.cluster)
    topics = list(broker.catalogue.topics.loaded.values())
    shown = sorted(topics, key=lambda each: -each.meter.total_messages)[:MAX_TOPICS]
    omitted = len(topics) - len(shown) if by_topic else len(topics)
    totals = broker_totals(broker)
    values = (
        totals.topics, totals.subscriptions, totals.producers, totals.consumers, totals.rate_in,
        totals.rate_out, totals.throughput_in, totals.throughput_out, totals.storage,
        totals.backlog, len(broker.sessions), broker.budget.taken_bytes, omitted,
    )  # fmt: skip
    yield from _samples(BROKER_METRICS, (cluster,), values)
    for topic in shown if by_topic else ():
        labels = (
            cluster,
            ("namespace", str(topic.name.namespace)),
            ("topic", str(topic.name)),
        )
        yield from _topic_samples(topic, labels)


def _topic_samples(topic: Topic, labels: Labels) -> Iterator[Sample]:
    now = topic.clock.monotonic()
    rate = topic.meter.rate(now)
    subscriptions = list(topic.subscriptions.values())
    rates = [each.meter.rate(now) for each in subscriptions]
    values = (
        rate.messages,
        sum(each.messages for each in rates),
        rate.bytes,
        sum(each.bytes for each in rates),
        topic.meter.total_messages,
        topic.meter.total_bytes,
        sum(each.meter.total_messages for each in subscriptions),
        sum(each.meter.total_bytes for each in subscriptions),
        rate.bytes / rate.messages if rate.messages else 0.0,
        storage_size(topic),
        topic_backlog_bytes(topic),
        sum(each.cursor.backlog for each in subscriptions),
        len(topic.producers),
        sum(len(each.consumers) for each in subscriptions),
        len(subscriptions),
    )
    yield from _samples(TOPIC_METRICS, labels, values)
    for each in subscriptions[:MAX_SUBSCRIPTIONS]:
        own = (*labels, ("subscription", each.name))
        out, again, expired = each.meter, each.redelivered, each.expired
        backlog, delayed = each.cursor.backlog, delayed_entries(each)
        yield from _samples(
            SUBSCRIPTION_METRICS,
            own,
            (
                backlog, max(0, backlog - delayed), delayed, subscription_backlog_bytes(each),
                out.rate(now).messages, out.rate(now).bytes, again.rate(now).messages,
                expired.rate(now).messages, expired.total_messages, unacked_messages(each),
                float(is_blocked(each)), len(each.consumers), out.total_messages, out.total_bytes,
            ),
        )  # fmt: skip


def _samples(
    metrics: Iterable[Metric], labels: Labels, values: Iterable[float]
) -> Iterator[Sample]:
    for metric, value in zip(metrics, values, strict=True):
        yield Sample(metric.name, labels, value)


class Page:
    """Samples of one name must follow one another, each name with its type before it."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, sample: Sample) -> None:
        name = sample.name
        lines = self._lines.get(name)
        if lines is None:
            metric = KNOWN[name]
            lines = [f"# HELP {name} {metric.meaning}", f"# TYPE {name} {metric.kind}"]
            self._lines[name] = lines
        lines.append(f"{name}{{{_labels(sample.labels)}}} {sample.value!r}")

    def text(self) -> str:
        return "".join(f"{line}\n" for lines in self._lines.values() for line in lines)


KNOWN: Final[Mapping[str, Metric]] = {
    each.name: each for each in (*SUBSCRIPTION_METRICS, *TOPIC_METRICS, *BROKER_METRICS)
}


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
