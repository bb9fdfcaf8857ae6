"""Where a topic is served, for clients that look up over HTTP."""

from __future__ import annotations

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import AUTHORITATIVE, OBJECT, Endpoint, Query, get
from anabranch.admin.messages import Reply, Request, text_reply
from anabranch.errors import NotReady
from anabranch.topics.names import TopicName, parse_topic_name

PATH = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"


def _name(request: Request) -> TopicName:
    return parse_topic_name(f"{request['domain']}://{request.namespace}/{request['topic']}")


async def look_up(admin: Admin, request: Request) -> Reply:
    if admin.broker.is_draining:
        raise NotReady("the broker stops; look up again")
    name = _name(request)
    await admin.catalogue.check_reachable(name)
    return Reply(
        {
            "brokerUrl": admin.broker.service_url,
            # The C++ client takes no answer without it.
            "brokerUrlTls": "",
            "httpUrl": admin.http_url,
            "nativeUrl": admin.broker.service_url,
        }
    )


async def get_bundle(admin: Admin, request: Request) -> Reply:
    """One broker owns them all: the first will do."""
    record = await admin.catalogue.namespaces.require(_name(request).namespace)
    return text_reply(f"{record.bundles[0]}_{record.bundles[1]}")


ENDPOINTS: tuple[Endpoint, ...] = (
    get(PATH, look_up, "The broker that serves a topic", OBJECT,
        query=(AUTHORITATIVE, Query("listenerName")), refusals=(404, 409)),
    get(f"{PATH}/bundle", get_bundle, "The bundle it lies in", None),
)  # fmt: skip
