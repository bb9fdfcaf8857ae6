"""This broker: is it well, and how is it configured."""

from __future__ import annotations

import anabranch
from anabranch.admin.context import Admin
from anabranch.admin.endpoints import NAMES, OBJECT, STRINGS, TEXT, Endpoint, Query, get
from anabranch.admin.messages import NO_CONTENT, Reply, Request, text_reply
from anabranch.broker.config import DYNAMIC_KEYS
from anabranch.errors import NotFound, NotReady

PATH = "/admin/v2/brokers"


async def list_brokers(admin: Admin, request: Request) -> Reply:
    return Reply([admin.broker_id])


async def list_of_cluster(admin: Admin, request: Request) -> Reply:
    if request["cluster"] != admin.catalogue.cluster:
        raise NotFound(f"this broker is of cluster {admin.catalogue.cluster}")
    return await list_brokers(admin, request)


async def get_leader(admin: Admin, request: Request) -> Reply:
    return Reply({"brokerId": admin.broker_id, "serviceUrl": admin.http_url})


async def check_health(admin: Admin, request: Request) -> Reply:
    """The metadata store answers, and the broker takes connections."""
    if admin.broker.is_draining:
        raise NotReady("the broker stops")
    await admin.catalogue.clusters.names()
    return text_reply("ok")


async def get_version(admin: Admin, request: Request) -> Reply:
    return text_reply(anabranch.__version__)


async def get_dynamic_keys(admin: Admin, request: Request) -> Reply:
    return Reply([*DYNAMIC_KEYS])


async def get_configuration(admin: Admin, request: Request) -> Reply:
    return Reply({**admin.live.current.to_table()})


async def get_changed(admin: Admin, request: Request) -> Reply:
    return Reply({**admin.live.changed})


async def set_key(admin: Admin, request: Request) -> Reply:
    await admin.live.set(request["key"], request["value"])
    return NO_CONTENT


async def unset_key(admin: Admin, request: Request) -> Reply:
    await admin.live.unset(request["key"])
    return NO_CONTENT


ENDPOINTS: tuple[Endpoint, ...] = (
    get(PATH, list_brokers, "All brokers", NAMES),
    get(f"{PATH}/{{cluster}}", list_of_cluster, "The brokers of a cluster", NAMES),
    get(f"{PATH}/leaderBroker", get_leader, "The broker that leads", OBJECT),
    get(f"{PATH}/health", check_health, "Is it well?", None, query=(Query("topicVersion", TEXT),)),
    get(f"{PATH}/ready", check_health, "Does it take requests?", None),
    get(f"{PATH}/version", get_version, "Its version", None),
    get(f"{PATH}/configuration", get_dynamic_keys, "What can be changed while it runs", NAMES),
    get(f"{PATH}/configuration/runtime", get_configuration, "What holds now", STRINGS),
    get(f"{PATH}/configuration/values", get_changed, "What was changed while it ran", STRINGS),
    Endpoint("POST", f"{PATH}/configuration/{{key}}/{{value}}", set_key, "Change a setting"),
    Endpoint("DELETE", f"{PATH}/configuration/{{key}}", unset_key, "Back to what the file says"),
)
