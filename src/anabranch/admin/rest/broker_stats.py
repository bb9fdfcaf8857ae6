"""Statistics of everything this broker has loaded."""

from __future__ import annotations

from typing import Any

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import OBJECT, Endpoint, get
from anabranch.admin.messages import Reply, Request
from anabranch.admin.metrics import broker_totals, samples_json
from anabranch.broker.topic_stats import topic_stats

PATH = "/admin/v2/broker-stats"


async def get_topics(admin: Admin, request: Request) -> Reply:
    """Namespace, bundle, domain, topic, as upstream nests them; one bundle stands for all."""
    found: dict[str, Any] = {}
    for topic in admin.catalogue.topics.loaded.values():
        space = found.setdefault(str(topic.name.namespace), {})
        bundle = space.setdefault("0x00000000_0xffffffff", {"persistent": {}})
        stats = topic_stats(topic, owner=admin.broker_id)
        bundle["persistent"][str(topic.name)] = stats
    return Reply(found)


async def get_metrics(admin: Admin, request: Request) -> Reply:
    return Reply(samples_json(admin.broker))


async def get_load_report(admin: Admin, request: Request) -> Reply:
    totals = broker_totals(admin.broker)
    return Reply(
        {
            "webServiceUrl": admin.http_url,
            "pulsarServiceUrl": admin.broker.service_url,
            "numTopics": totals.topics,
            "numConsumers": totals.consumers,
            "numProducers": totals.producers,
            "numConnections": len(admin.broker.sessions),
            "msgRateIn": totals.rate_in,
            "msgRateOut": totals.rate_out,
            "msgThroughputIn": totals.throughput_in,
            "msgThroughputOut": totals.throughput_out,
        }
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    get(f"{PATH}/topics", get_topics, "Of all loaded topics", OBJECT),
    get(f"{PATH}/metrics", get_metrics, "All metrics, as JSON", {"type": "array"}),
    get(f"{PATH}/load-report", get_load_report, "The load of this broker", OBJECT),
)
