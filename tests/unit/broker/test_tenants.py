from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from anabranch.broker.tenants import (
    Cluster,
    Clusters,
    Tenant,
    Tenants,
    parse_cluster,
    parse_tenant,
)
from anabranch.errors import (
    AlreadyExists,
    Corrupt,
    InvalidInput,
    InvalidName,
    NotEmpty,
    NotFound,
)
from anabranch.metadata.store import MetadataStore
from anabranch.topics.json_fields import Json
from tests.broker_records import memory_store

HERE = Cluster(service_url="http://h:8080", broker_service_url="pulsar://h:6650")
OURS = Tenant(("admin",), ("here",))


def run(scenario: Callable[[MetadataStore], Awaitable[None]]) -> None:
    async def play() -> None:
        store = memory_store()
        await Clusters(store).create("here", HERE)
        await scenario(store)

    asyncio.run(play())


def test_cluster_is_created_once_changed_and_deleted() -> None:
    async def scenario(store: MetadataStore) -> None:
        clusters = Clusters(store)
        assert await clusters.names() == ["here"]
        assert await clusters.get("here") == HERE
        with pytest.raises(AlreadyExists, match="cluster here"):
            await clusters.create("here", HERE)
        await clusters.update("here", Cluster("http://new:8080"))
        assert await clusters.get("here") == Cluster("http://new:8080")
        await clusters.delete("here")
        assert await clusters.get("here") is None
        with pytest.raises(NotFound):
            await clusters.update("here", HERE)
        with pytest.raises(NotFound):
            await clusters.delete("here")

    run(scenario)


def test_cluster_that_a_tenant_may_use_stays() -> None:
    async def scenario(store: MetadataStore) -> None:
        await Tenants(store).create("t", OURS)
        with pytest.raises(NotEmpty, match="tenant t"):
            await Clusters(store).delete("here")

    run(scenario)


def test_tenant_is_created_once_changed_and_deleted() -> None:
    async def scenario(store: MetadataStore) -> None:
        tenants = Tenants(store)
        await tenants.create("t", OURS)
        with pytest.raises(AlreadyExists, match="tenant t"):
            await tenants.create("t", OURS)
        assert await tenants.names() == ["t"]
        await tenants.update("t", Tenant((), ("here",)))
        assert await tenants.require("t") == Tenant((), ("here",))
        await tenants.delete("t")
        with pytest.raises(NotFound, match="tenant t"):
            await tenants.require("t")
        with pytest.raises(NotFound, match="tenant t"):
            await tenants.update("t", OURS)
        with pytest.raises(NotFound, match="tenant t"):
            await tenants.delete("t")

    run(scenario)


def test_tenant_needs_clusters_that_exist() -> None:
    async def scenario(store: MetadataStore) -> None:
        tenants = Tenants(store)
        with pytest.raises(InvalidInput, match="at least one"):
            await tenants.create("t", Tenant())
        with pytest.raises(InvalidInput, match="moon do not exist; there are here"):
            await tenants.create("t", Tenant((), ("moon",)))

    run(scenario)


def test_tenant_with_namespaces_stays_and_names_them() -> None:
    async def scenario(store: MetadataStore) -> None:
        await Tenants(store).create("t", OURS)
        await store.put("/admin/policies/t/n", b"{}", None)
        with pytest.raises(NotEmpty, match="1 namespaces: n"):
            await Tenants(store).delete("t")

    run(scenario)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 256])
def test_names_are_what_a_topic_name_can_carry(name: str) -> None:
    async def scenario(store: MetadataStore) -> None:
        with pytest.raises(InvalidName, match="tenant"):
            await Tenants(store).create(name, OURS)
        with pytest.raises(InvalidName, match="cluster"):
            await Clusters(store).get(name)

    run(scenario)


def test_unknown_fields_are_kept_and_nulls_left_out() -> None:
    raw: Json = {"serviceUrl": "http://h", "proxyServiceUrl": "x", "authenticationPlugin": None}
    assert parse_cluster(raw).to_json() == {"serviceUrl": "http://h", "proxyServiceUrl": "x"}
    tenant: Json = {"adminRoles": ["b", "a", "a"], "allowedClusters": ["here"], "z": 1}
    assert parse_tenant(tenant) == Tenant(("a", "b"), ("here",), {"z": 1})


def test_every_wrong_address_of_a_cluster_is_named() -> None:
    raw: Json = {"serviceUrl": "pulsar://h", "brokerServiceUrlTls": "pulsar://h"}
    with pytest.raises(InvalidInput, match=r"serviceUrl.*http://; .*Tls.*pulsar\+ssl://"):
        parse_cluster(raw)


@pytest.mark.parametrize("raw", [None, [], {"adminRoles": 3}, {"allowedClusters": [3]}])
def test_what_is_no_tenant_is_refused(raw: Json) -> None:
    with pytest.raises(InvalidInput):
        parse_tenant(raw)


def test_damaged_record_is_corrupt() -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.put("/admin/policies/t", b'{"adminRoles": [1]}', None)
        with pytest.raises(Corrupt, match="/admin/policies/t"):
            await Tenants(store).get("t")

    run(scenario)
