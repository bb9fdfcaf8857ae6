"""Tenants: who may have namespaces, and in which clusters."""

from __future__ import annotations

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import FORCE, NAMES, OBJECT, Endpoint, get
from anabranch.admin.messages import NO_CONTENT, Reply, Request
from anabranch.broker.tenants import Tenant, Tenants, check_name, parse_tenant
from anabranch.broker.topic_lifecycle import delete_namespace
from anabranch.errors import NotAllowed, NotFound, NotSupported

PATH = "/admin/v2/tenants"


def _tenants(admin: Admin) -> Tenants:
    return admin.catalogue.tenants


async def list_tenants(admin: Admin, request: Request) -> Reply:
    return Reply([*await _tenants(admin).names()])


async def get_tenant(admin: Admin, request: Request) -> Reply:
    return Reply((await _tenants(admin).require(request["tenant"])).to_json())


async def create_tenant(admin: Admin, request: Request) -> Reply:
    check_name(request["tenant"], "tenant")
    tenant = _read(request)
    limit = admin.live.current.admin.max_tenants
    if limit > 0 and len(await _tenants(admin).names()) >= limit:
        raise NotAllowed(f"there are {limit} tenants, as many as maxTenants allows")
    await _tenants(admin).create(request["tenant"], tenant)
    return NO_CONTENT


async def update_tenant(admin: Admin, request: Request) -> Reply:
    check_name(request["tenant"], "tenant")
    await _tenants(admin).update(request["tenant"], _read(request))
    return NO_CONTENT


def _read(request: Request) -> Tenant:
    return parse_tenant(request.json() or {})


async def delete_tenant(admin: Admin, request: Request) -> Reply:
    name = request["tenant"]
    if request.flag("force"):
        if not admin.live.current.admin.force_delete_tenant:
            raise NotSupported("forceDeleteTenantAllowed is false: delete its namespaces first")
        for namespace in await admin.catalogue.namespaces.of_tenant(name):
            try:
                await delete_namespace(admin.broker, namespace, force=True)
            except NotFound:
                continue
    await _tenants(admin).delete(name)
    return NO_CONTENT


ENDPOINTS: tuple[Endpoint, ...] = (
    get(PATH, list_tenants, "All tenants", NAMES),
    get(f"{PATH}/{{tenant}}", get_tenant, "A tenant's roles and clusters", OBJECT),
    Endpoint("PUT", f"{PATH}/{{tenant}}", create_tenant, "Add a tenant", body=OBJECT,
             refusals=(409,)),
    Endpoint("POST", f"{PATH}/{{tenant}}", update_tenant, "Change a tenant", body=OBJECT),
    Endpoint("DELETE", f"{PATH}/{{tenant}}", delete_tenant, "Remove a tenant", (FORCE,),
             refusals=(405, 409)),
)  # fmt: skip
