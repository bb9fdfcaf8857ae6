"""Clusters and tenants over REST."""

from __future__ import annotations

from tests.admin_world import AdminWorld, play

STANDALONE = {"adminRoles": [], "allowedClusters": ["standalone"]}


def test_a_tenant_comes_is_changed_and_goes() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", "/tenants/t", STANDALONE)
        assert await world.ask("/tenants") == ["public", "t"]
        await world.done("POST", "/tenants/t", {**STANDALONE, "adminRoles": ["root"]})
        assert (await world.ask("/tenants/t"))["adminRoles"] == ["root"]
        await world.done("DELETE", "/tenants/t")
        await world.refused(404, "GET", "/tenants/t")

    play(scenario)


def test_what_is_wrong_with_a_tenant_has_a_status_of_its_own() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(409, "PUT", "/tenants/public", STANDALONE)
        await world.refused(404, "POST", "/tenants/nobody", STANDALONE)
        await world.refused(412, "PUT", "/tenants/t", {"allowedClusters": []})
        await world.refused(412, "PUT", "/tenants/t", {"allowedClusters": ["mars"]})
        await world.refused(412, "PUT", "/tenants/a%20b", STANDALONE)
        await world.refused(412, "PUT", "/tenants/t", [1])
        await world.refused(400, "PUT", "/tenants/t", content=b"{")
        await world.refused(404, "DELETE", "/tenants/nobody")

    play(scenario)


def test_a_tenant_with_namespaces_stays() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(409, "DELETE", "/tenants/public")
        await world.refused(405, "DELETE", "/tenants/public?force=true")
        await world.refused(400, "DELETE", "/tenants/public?force=maybe")

    play(scenario)


def test_force_takes_everything_with_it_where_that_is_allowed() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        await world.done("DELETE", "/tenants/public?force=true")
        assert await world.ask("/tenants") == []
        assert world.broker.catalogue.topics.loaded == {}

    play(scenario, "forceDeleteTenantAllowed=true")


def test_there_are_no_more_tenants_than_allowed() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(409, "PUT", "/tenants/t", STANDALONE)

    play(scenario, "maxTenants=1")


def test_a_cluster_comes_is_changed_and_goes() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", "/clusters/east", {"serviceUrl": "http://east:8080"})
        await world.refused(409, "PUT", "/clusters/east", {})
        await world.done("POST", "/clusters/east", {"serviceUrl": "http://east:80"})
        assert await world.ask("/clusters/east") == {"serviceUrl": "http://east:80"}
        assert await world.ask("/clusters") == ["east", "standalone"]
        await world.done("DELETE", "/clusters/east")
        await world.refused(404, "GET", "/clusters/east")

    play(scenario)


def test_what_is_wrong_with_a_cluster_has_a_status_of_its_own() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(412, "PUT", "/clusters/east", {"serviceUrl": "east"})
        await world.refused(404, "POST", "/clusters/east", {})
        await world.refused(409, "DELETE", "/clusters/standalone")

    play(scenario)
