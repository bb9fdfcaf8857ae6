"""Namespaces: making and ending them, and what they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import (
    AUTHORITATIVE,
    FLAG,
    FORCE,
    NAMES,
    OBJECT,
    STRINGS,
    TEXT,
    Endpoint,
    Query,
    get,
)
from anabranch.admin.messages import NO_CONTENT, Reply, Request
from anabranch.broker.policies import Policies
from anabranch.broker.subscription_moves import skip_all
from anabranch.broker.topic_lifecycle import delete_namespace as end_namespace
from anabranch.errors import ConsumerBusy, InvalidInput, Malformed, NotFound, NotSupported
from anabranch.topics.json_fields import Json
from anabranch.topics.names import NamespaceName

PATH = "/admin/v2/namespaces/{tenant}"
ONE = f"{PATH}/{{namespace}}"
ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")
AUTH, ROLES = "auth_policies", "namespace_auth"
MODES = ("PERSISTENT", "NON_PERSISTENT", "ALL")


async def list_namespaces(admin: Admin, request: Request) -> Reply:
    found = await admin.catalogue.namespaces.of_tenant(request["tenant"])
    return Reply([str(each) for each in found])


async def get_namespace(admin: Admin, request: Request) -> Reply:
    return Reply((await admin.catalogue.namespaces.require(request.namespace)).to_json())


async def create_namespace(admin: Admin, request: Request) -> Reply:
    await admin.catalogue.namespaces.create(request.namespace, request.json())
    return NO_CONTENT


async def delete_namespace(admin: Admin, request: Request) -> Reply:
    force = request.flag("force")
    if force and not admin.live.current.admin.force_delete_namespace:
        raise NotSupported("forceDeleteNamespaceAllowed is false: delete its topics first")
    await end_namespace(admin.broker, request.namespace, force=force)
    return NO_CONTENT


async def list_topics(admin: Admin, request: Request) -> Reply:
    mode = request.text("mode", "PERSISTENT").upper()
    if mode not in MODES:
        raise Malformed(f"mode is {mode[:60]!r}; it can be {', '.join(MODES)}")
    await admin.catalogue.namespaces.require(request.namespace)
    if mode == "NON_PERSISTENT":
        return Reply([])
    found = await admin.catalogue.topics.of_namespace(request.namespace)
    return Reply([str(each) for each in found])


async def get_bundles(admin: Admin, request: Request) -> Reply:
    record = await admin.catalogue.namespaces.require(request.namespace)
    return Reply({"boundaries": [*record.bundles], "numBundles": len(record.bundles) - 1})


async def unload_namespace(admin: Admin, request: Request) -> Reply:
    await _check_bundle(admin, request)
    namespace = request.namespace
    for topic in [*admin.catalogue.topics.loaded.values()]:
        if topic.name.namespace == namespace:
            try:
                await admin.catalogue.topics.unload(topic.name)
            except NotFound:
                continue
    return NO_CONTENT


async def _check_bundle(admin: Admin, request: Request) -> None:
    """One broker owns them all, so a bundle is unloaded with its namespace; it must exist."""
    record = await admin.catalogue.namespaces.require(request.namespace)
    bundle = request.elements.get("bundle")
    if bundle is None:
        return
    known = [f"{low}_{high}" for low, high in pairwise(record.bundles)]
    if bundle not in known:
        raise InvalidInput(f"{request.namespace} has no bundle {bundle[:60]!r}: {', '.join(known)}")


async def clear_backlog(admin: Admin, request: Request) -> Reply:
    """Of one subscription, or of all, on every topic."""
    await admin.catalogue.namespaces.require(request.namespace)
    wanted = request.elements.get("subscription")
    for name in await admin.catalogue.topics.of_namespace(request.namespace):
        topic = await admin.catalogue.topics.get(name)
        for subscription in list(topic.subscriptions.values()):
            if subscription.cursor.is_durable and wanted in (None, subscription.name):
                await skip_all(subscription)
    return NO_CONTENT


async def unsubscribe(admin: Admin, request: Request) -> Reply:
    """End a subscription on every topic; ConsumerBusy if anybody uses it."""
    await admin.catalogue.namespaces.require(request.namespace)
    wanted = request["subscription"]
    names = await admin.catalogue.topics.of_namespace(request.namespace)
    topics = [await admin.catalogue.topics.get(name) for name in names]
    having = [topic for topic in topics if wanted in topic.subscriptions]
    for topic in having:
        if topic.subscription(wanted).consumers:
            raise ConsumerBusy(f"subscription {wanted!r} of {topic.name} has consumers")
    for topic in having:
        await topic.delete_subscription(wanted)
    return NO_CONTENT


# Properties


async def get_properties(admin: Admin, request: Request) -> Reply:
    record = await admin.catalogue.namespaces.require(request.namespace)
    return Reply({**record.properties})


async def set_properties(admin: Admin, request: Request) -> Reply:
    added = request.properties()
    await admin.catalogue.namespaces.update_properties(
        request.namespace, lambda old: {**old, **added}
    )
    return NO_CONTENT


async def clear_properties(admin: Admin, request: Request) -> Reply:
    await admin.catalogue.namespaces.update_properties(request.namespace, lambda _: {})
    return NO_CONTENT


# Permissions: kept, given back, and enforced by nobody while there is no authorization.


async def get_permissions(admin: Admin, request: Request) -> Reply:
    return Reply(await _permissions(admin, request.namespace))


async def grant_permission(admin: Admin, request: Request) -> Reply:
    actions = request.required_json()
    if not isinstance(actions, list) or not all(isinstance(each, str) for each in actions):
        raise Malformed("expected a list of actions, such as produce and consume")
    wrong = [each for each in actions if each not in ACTIONS]
    if wrong:
        raise InvalidInput(f"{wrong[0]!r} is none of {', '.join(ACTIONS)}")
    role, granted = request["role"], sorted({str(each) for each in actions})
    await _change_permissions(admin, request.namespace, lambda roles: {**roles, role: [*granted]})
    return NO_CONTENT


async def revoke_permission(admin: Admin, request: Request) -> Reply:
    role = request["role"]
    await _change_permissions(
        admin,
        request.namespace,
        lambda roles: {each: actions for each, actions in roles.items() if each != role},
    )
    return NO_CONTENT


async def _permissions(admin: Admin, name: NamespaceName) -> dict[str, Json]:
    record = await admin.catalogue.namespaces.require(name)
    return namespace_roles(record.policies.unknown.get(AUTH))


async def _change_permissions(
    admin: Admin,
    name: NamespaceName,
    change: Callable[[dict[str, Json]], dict[str, Json]],
) -> None:
    def changed(policies: Policies) -> Policies:
        roles = change(namespace_roles(policies.unknown.get(AUTH)))
        return replace(policies, unknown={**policies.unknown, AUTH: {ROLES: roles}})

    await admin.catalogue.namespaces.update_policies(name, changed)


def namespace_roles(auth: Json) -> dict[str, Json]:
    roles = auth.get(ROLES) if isinstance(auth, dict) else None
    return dict(roles) if isinstance(roles, dict) else {}


ENDPOINTS: tuple[Endpoint, ...] = (
    get(PATH, list_namespaces, "The namespaces of a tenant", NAMES),
    get(ONE, get_namespace, "Everything that is set for a namespace", OBJECT),
    Endpoint("PUT", ONE, create_namespace, "Add a namespace", body=OBJECT, refusals=(404, 409)),
    Endpoint("DELETE", ONE, delete_namespace, "Remove a namespace", (FORCE, AUTHORITATIVE),
             refusals=(404, 405, 409)),
    get(f"{ONE}/topics", list_topics, "Its topics, with their partitions", NAMES,
        query=(Query("mode", {"type": "string", "enum": [*MODES]}),
               Query("includeSystemTopic", FLAG))),
    get(f"{ONE}/bundles", get_bundles, "Its bundles", OBJECT),
    Endpoint("PUT", f"{ONE}/unload", unload_namespace, "Unload its topics"),
    Endpoint("PUT", f"{ONE}/{{bundle}}/unload", unload_namespace, "Unload the topics of a bundle",
             (AUTHORITATIVE, Query("destinationBroker", TEXT))),
    Endpoint("POST", f"{ONE}/clearBacklog", clear_backlog, "Skip everything, on every topic",
             (AUTHORITATIVE,)),
    Endpoint("POST", f"{ONE}/clearBacklog/{{subscription}}", clear_backlog,
             "Skip everything of one subscription", (AUTHORITATIVE,)),
    Endpoint("POST", f"{ONE}/unsubscribe/{{subscription}}", unsubscribe,
             "End a subscription on every topic", (AUTHORITATIVE,)),
    get(f"{ONE}/properties", get_properties, "Its properties", STRINGS),
    Endpoint("PUT", f"{ONE}/properties", set_properties, "Add properties", body=STRINGS),
    Endpoint("DELETE", f"{ONE}/properties", clear_properties, "Remove all properties"),
    get(f"{ONE}/permissions", get_permissions, "What roles may do", OBJECT),
    Endpoint("POST", f"{ONE}/permissions/{{role}}", grant_permission, "Let a role do something",
             body={"type": "array", "items": {"enum": [*ACTIONS]}}, is_body_required=True),
    Endpoint("DELETE", f"{ONE}/permissions/{{role}}", revoke_permission, "Let it do nothing"),
)  # fmt: skip
