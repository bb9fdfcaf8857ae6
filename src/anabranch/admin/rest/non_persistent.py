"""Non-persistent topics are not served; admin clients ask for lists of them all the same."""

from __future__ import annotations

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import NAMES, Endpoint, get
from anabranch.admin.messages import Reply, Request

PATH = "/admin/v2/non-persistent/{tenant}/{namespace}"


async def list_none(admin: Admin, request: Request) -> Reply:
    await admin.catalogue.namespaces.require(request.namespace)
    return Reply([])


ENDPOINTS: tuple[Endpoint, ...] = (
    get(PATH, list_none, "There are none", NAMES),
    get(f"{PATH}/partitioned", list_none, "There are none", NAMES),
)
