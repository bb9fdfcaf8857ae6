"""Clusters: where each is reached."""

from __future__ import annotations

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import NAMES, OBJECT, Endpoint, get
from anabranch.admin.messages import NO_CONTENT, Reply, Request
from anabranch.broker.tenants import Clusters, cluster_path, parse_cluster
from anabranch.errors import NotFound

PATH = "/admin/v2/clusters"


def _clusters(admin: Admin) -> Clusters:
    return admin.catalogue.clusters


async def list_clusters(admin: Admin, request: Request) -> Reply:
    return Reply([*await _clusters(admin).names()])


async def get_cluster(admin: Admin, request: Request) -> Reply:
    found = await _clusters(admin).get(request["cluster"])
    if found is None:
        raise NotFound(f"cluster {request['cluster']} does not exist")
    return Reply(found.to_json())


async def create_cluster(admin: Admin, request: Request) -> Reply:
    cluster_path(request["cluster"])  # its name is judged before its body
    await _clusters(admin).create(request["cluster"], parse_cluster(request.json() or {}))
    return NO_CONTENT


async def update_cluster(admin: Admin, request: Request) -> Reply:
    cluster_path(request["cluster"])
    await _clusters(admin).update(request["cluster"], parse_cluster(request.json() or {}))
    return NO_CONTENT


async def delete_cluster(admin: Admin, request: Request) -> Reply:
    await _clusters(admin).delete(request["cluster"])
    return NO_CONTENT


ENDPOINTS: tuple[Endpoint, ...] = (
    get(PATH, list_clusters, "All clusters", NAMES),
    get(f"{PATH}/{{cluster}}", get_cluster, "Where a cluster is reached", OBJECT),
    Endpoint("PUT", f"{PATH}/{{cluster}}", create_cluster, "Add a cluster", body=OBJECT,
             refusals=(409,)),
    Endpoint("POST", f"{PATH}/{{cluster}}", update_cluster, "Change its addresses", body=OBJECT),
    Endpoint("DELETE", f"{PATH}/{{cluster}}", delete_cluster, "Remove a cluster", refusals=(409,)),
)  # fmt: skip
