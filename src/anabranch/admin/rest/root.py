"""What lies at the root: a sign of life for load balancers, and the metrics."""

from __future__ import annotations

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import Endpoint, get
from anabranch.admin.messages import Reply, Request, text_reply
from anabranch.admin.metrics import CONTENT_TYPE, render_metrics
from anabranch.errors import NotReady


async def show_status(admin: Admin, request: Request) -> Reply:
    if admin.broker.is_draining:
        raise NotReady("the broker stops")
    return text_reply("OK")


async def show_metrics(admin: Admin, request: Request) -> Reply:
    return text_reply(await render_metrics(admin.broker, admin.live.current), CONTENT_TYPE)


ENDPOINTS: tuple[Endpoint, ...] = (
    get("/status.html", show_status, "Is it up?", None),
    get("/metrics", show_metrics, "Metrics, in Prometheus' text format", None),
)
