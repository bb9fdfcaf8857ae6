"""Clusters and tenants: who may have namespaces, and where.

    /admin/clusters/{cluster}    {"serviceUrl": …, "brokerServiceUrl": …, …}
    /admin/policies/{tenant}     {"adminRoles": […], "allowedClusters": […]}

Namespaces lie below their tenant, so a tenant that has any cannot be deleted: the store says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from anabranch.broker.policy_json import Problems, read_texts
from anabranch.broker.record_update import (
    change_record,
    create_record,
    delete_record,
    load_record,
)
from anabranch.errors import AnabranchError, Corrupt, InvalidInput, InvalidName, NotEmpty, NotFound
from anabranch.metadata.store import MetadataStore
from anabranch.topics.json_fields import Fields, Json

CLUSTERS_PATH: Final = "/admin/clusters"
POLICIES_PATH: Final = "/admin/policies"
_NAME = re.compile(r"[-=:.\w]+", re.ASCII)
_MAX_NAME_LENGTH: Final = 255
_URL_SCHEMES: Final = {
    "service_url": "http",
    "service_url_tls": "https",
    "broker_service_url": "pulsar",
    "broker_service_url_tls": "pulsar+ssl",
}


def _url(json_name: str) -> Any:
    return field(default="", metadata={"json": json_name})


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a cluster is reached; an empty address is one it does not have."""

    service_url: str = _url("serviceUrl")
    service_url_tls: str = _url("serviceUrlTls")
    broker_service_url: str = _url("brokerServiceUrl")
    broker_service_url_tls: str = _url("brokerServiceUrlTls")
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        known: dict[str, Json] = {
            each.metadata["json"]: getattr(self, each.name)
            for each in fields(self)
            if each.name != "unknown" and getattr(self, each.name)
        }
        return dict(self.unknown) | known


@dataclass(frozen=True, slots=True)
class Tenant:
    admin_roles: tuple[str, ...] = ()
    allowed_clusters: tuple[str, ...] = ()
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        return dict(self.unknown) | {
            "adminRoles": list(self.admin_roles),
            "allowedClusters": list(self.allowed_clusters),
        }


def parse_cluster(raw: Json, path: str = "cluster") -> Cluster:
    """From a request: InvalidInput names every address that is none."""
    cluster = _read_cluster(raw, path, InvalidInput)
    wrong = [
        f"{path}.{each.metadata['json']}: {url!r} must begin with {_URL_SCHEMES[each.name]}://"
        for each in fields(Cluster)
        if each.name in _URL_SCHEMES
        and (url := getattr(cluster, each.name))
        and not url.startswith(f"{_URL_SCHEMES[each.name]}://")
    ]
    if wrong:
        raise InvalidInput("; ".join(wrong))
    return cluster


def parse_tenant(raw: Json, path: str = "tenant") -> Tenant:
    return _read_tenant(raw, path, InvalidInput)


class Clusters:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def names(self) -> list[str]:
        return await self._store.children(CLUSTERS_PATH)

    async def get(self, name: str) -> Cluster | None:
        return await load_record(self._store, cluster_path(name), _parse_stored_cluster)

    async def create(self, name: str, cluster: Cluster) -> None:
        await create_record(self._store, cluster_path(name), cluster.to_json(), f"cluster {name}")

    async def update(self, name: str, cluster: Cluster) -> None:
        await change_record(
            self._store, cluster_path(name), _parse_stored_cluster,
            lambda _: cluster, Cluster.to_json, f"cluster {name}",
        )  # fmt: skip

    async def delete(self, name: str) -> None:
        """NotEmpty while a tenant may use it."""
        tenants = Tenants(self._store)
        for tenant_name in await tenants.names():
            tenant = await tenants.get(tenant_name)
            if tenant is not None and name in tenant.allowed_clusters:
                raise NotEmpty(f"cluster {name} is allowed for tenant {tenant_name}")
        await delete_record(self._store, cluster_path(name), f"cluster {name}")


class Tenants:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def names(self) -> list[str]:
        return await self._store.children(POLICIES_PATH)

    async def get(self, name: str) -> Tenant | None:
        return await load_record(self._store, tenant_path(name), _parse_stored_tenant)

    async def require(self, name: str) -> Tenant:
        found = await self.get(name)
        if found is None:
            raise NotFound(f"tenant {name} does not exist")
        return found

    async def create(self, name: str, tenant: Tenant) -> None:
        path = tenant_path(name)
        await self._check_clusters(name, tenant)
        await create_record(self._store, path, tenant.to_json(), f"tenant {name}")

    async def update(self, name: str, tenant: Tenant) -> None:
        path = tenant_path(name)
        await self.require(name)
        await self._check_clusters(name, tenant)
        await change_record(
            self._store, path, _parse_stored_tenant, lambda _: tenant, Tenant.to_json,
            f"tenant {name}",
        )  # fmt: skip

    async def delete(self, name: str) -> None:
        try:
            await delete_record(self._store, tenant_path(name), f"tenant {name}")
        except NotEmpty:
            spaces = await self._store.children(tenant_path(name))
            shown = ", ".join(spaces[:5])
            raise NotEmpty(f"tenant {name} has {len(spaces)} namespaces: {shown}") from None

    async def _check_clusters(self, name: str, tenant: Tenant) -> None:
        if not tenant.allowed_clusters:
            raise InvalidInput(f"tenant {name} needs at least one of allowedClusters")
        known = await Clusters(self._store).names()
        missing = [each for each in tenant.allowed_clusters if each not in known]
        if missing:
            raise InvalidInput(
                f"tenant {name}: clusters {', '.join(missing)} do not exist; "
                f"there are {', '.join(known)}"
            )


def cluster_path(name: str) -> str:
    return f"{CLUSTERS_PATH}/{check_name(name, 'cluster')}"


def tenant_path(name: str) -> str:
    return f"{POLICIES_PATH}/{check_name(name, 'tenant')}"


def check_name(name: str, what: str) -> str:
    """The name itself. InvalidName for what could not be part of a topic's name."""
    if len(name) > _MAX_NAME_LENGTH or name in (".", "..") or not _NAME.fullmatch(name):
        raise InvalidName(
            f"{what} {name[:60]!r} must be at most {_MAX_NAME_LENGTH} letters, digits "
            f"and any of - = : . _"
        )
    return name


def _read_cluster(raw: Json, path: str, error: type[AnabranchError]) -> Cluster:
    source = Fields(raw, path, error)
    urls = {
        each.name: source.text(each.metadata["json"], "")
        for each in fields(Cluster)
        if each.name != "unknown"
    }
    unknown = {key: value for key, value in source.rest().items() if value is not None}
    return Cluster(**urls, unknown=unknown)


def _read_tenant(raw: Json, path: str, error: type[AnabranchError]) -> Tenant:
    source = Fields(raw, path, error)
    problems: Problems = []
    roles, clusters = (
        read_texts(source.items(name), f"{path}.{name}", problems) or ()
        for name in ("adminRoles", "allowedClusters")
    )
    if problems:
        raise error("; ".join(problems))
    return Tenant(roles, clusters, source.rest())


def _parse_stored_cluster(raw: Json, path: str) -> Cluster:
    return _read_cluster(raw, path, Corrupt)


def _parse_stored_tenant(raw: Json, path: str) -> Tenant:
    return _read_tenant(raw, path, Corrupt)
