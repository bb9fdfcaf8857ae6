from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from anabranch.broker.namespaces import (
    NamespaceRecord,
    Namespaces,
    bundle_boundaries,
    namespace_path,
    parse_new_namespace,
    parse_stored_namespace,
)
from anabranch.broker.partitions import PartitionedTopics
from anabranch.broker.policies import Policies
from anabranch.broker.policy_values import BacklogQuota, QuotaAction, QuotaKind, Retention
from anabranch.broker.tenants import Cluster, Clusters, Tenant, Tenants
from anabranch.broker.topic_policies import TopicPolicies
from anabranch.errors import (
    AlreadyExists,
    Corrupt,
    InvalidInput,
    InvalidName,
    NotAllowed,
    NotEmpty,
    NotFound,
    Unavailable,
)
from anabranch.metadata.store import MetadataStore
from anabranch.topics.json_fields import Json
from anabranch.topics.names import NamespaceName, parse_topic_name
from tests.broker_records import ContendedStore, contended_store

SPACE = NamespaceName("t", "n")
TOPIC = parse_topic_name("persistent://t/n/x")
CLUSTER = Cluster("http://h:8080", "", "pulsar://h:6650")


class Surroundings:
    """A store with cluster `here` and tenant `t`, and the topics somebody else knows of."""

    def __init__(self) -> None:
        self.store: ContendedStore = contended_store()
        self.topics: list[str] = []
        self.namespaces = self.for_limits()

    def for_limits(self, max_per_tenant: int = 0) -> Namespaces:
        return Namespaces(self.store, self.topics_of, cluster="here", max_per_tenant=max_per_tenant)

    async def topics_of(self, name: NamespaceName) -> Sequence[str]:
        return self.topics


def run(scenario: Callable[[Surroundings], Awaitable[None]]) -> None:
    async def play() -> None:
        around = Surroundings()
        await Clusters(around.store).create("here", CLUSTER)
        await Clusters(around.store).create("there", CLUSTER)
        await Tenants(around.store).create("t", Tenant((), ("here",)))
        await scenario(around)

    asyncio.run(play())


def test_namespace_is_created_once_and_listed() -> None:
    async def scenario(around: Surroundings) -> None:
        spaces = around.namespaces
        await spaces.create(SPACE)
        found = await spaces.require(SPACE)
        assert found == NamespaceRecord(bundle_boundaries(4), ("here",))
        assert await spaces.of_tenant("t") == [SPACE]
        with pytest.raises(AlreadyExists, match="namespace t/n exists"):
            await spaces.create(SPACE)

    run(scenario)


def test_missing_tenant_and_missing_namespace_are_not_found() -> None:
    async def scenario(around: Surroundings) -> None:
        spaces = around.namespaces
        with pytest.raises(NotFound, match="tenant no"):
            await spaces.create(NamespaceName("no", "n"))
        with pytest.raises(NotFound, match="tenant no"):
            await spaces.of_tenant("no")
        with pytest.raises(NotFound, match="namespace t/n does not exist"):
            await spaces.require(SPACE)
        with pytest.raises(NotFound):
            await spaces.update_policies(SPACE, lambda policies: policies)
        with pytest.raises(NotFound):
            await spaces.delete(SPACE)

    run(scenario)


def test_illegal_name_is_refused() -> None:
    async def scenario(around: Surroundings) -> None:
        with pytest.raises(InvalidName, match="namespace"):
            await around.namespaces.create(NamespaceName("t", "a/b"))

    run(scenario)


def test_body_sets_policies_bundles_and_clusters() -> None:
    async def scenario(around: Surroundings) -> None:
        body: Json = {
            "message_ttl_in_seconds": 5,
            "bundles": {"numBundles": 2},
            "replication_clusters": ["here"],
            "properties": {"team": "a"},
            "offload_threshold": -1,
        }
        await around.namespaces.create(SPACE, body)
        found = await around.namespaces.require(SPACE)
        assert found.policies.message_ttl_seconds == 5
        assert found.bundles == ("0x00000000", "0x80000000", "0xffffffff")
        assert found.properties == {"team": "a"}
        assert found.to_json()["offload_threshold"] == -1
        with pytest.raises(InvalidInput, match="may not use there, only here"):
            await around.namespaces.create(
                NamespaceName("t", "m"), {"replication_clusters": ["there"]}
            )

    run(scenario)


def test_limit_of_namespaces_per_tenant_holds() -> None:
    async def scenario(around: Surroundings) -> None:
        spaces = around.for_limits(max_per_tenant=1)
        await spaces.create(SPACE)
        with pytest.raises(NotAllowed, match="maxNamespacesPerTenant is 1"):
            await spaces.create(NamespaceName("t", "m"))

    run(scenario)


def test_namespace_of_a_tenant_that_goes_meanwhile_goes_too() -> None:
    async def scenario(around: Surroundings) -> None:
        async def rival(other: MetadataStore) -> None:
            await Tenants(other).delete("t")

        around.store.rivals = [rival]
        with pytest.raises(NotFound, match="deleted meanwhile"):
            await around.namespaces.create(SPACE)
        assert await around.namespaces.get(SPACE) is None

    run(scenario)


def test_policies_change_by_compare_and_set() -> None:
    async def scenario(around: Surroundings) -> None:
        spaces = around.namespaces
        await spaces.create(SPACE)

        async def rival(other: MetadataStore) -> None:
            theirs = Namespaces(other, around.topics_of, cluster="here")
            await theirs.update_policies(SPACE, lambda old: replace(old, message_ttl_seconds=5))

        around.store.rivals = [rival]
        await spaces.update_policies(SPACE, lambda old: replace(old, max_producers_per_topic=6))
        found = (await spaces.require(SPACE)).policies
        assert (found.message_ttl_seconds, found.max_producers_per_topic) == (5, 6)

    run(scenario)


def test_change_that_never_gets_through_gives_up() -> None:
    async def scenario(around: Surroundings) -> None:
        await around.namespaces.create(SPACE)

        async def rival(other: MetadataStore) -> None:
            found = await other.get(namespace_path(SPACE))
            assert found is not None
            await other.put(namespace_path(SPACE), found[0], None)

        around.store.rivals = [rival] * 100
        with pytest.raises(Unavailable, match="16 times"):
            await around.namespaces.update_policies(
                SPACE, lambda _: Policies(message_ttl_seconds=1)
            )

    run(scenario)


def test_policies_that_contradict_each_other_are_refused() -> None:
    async def scenario(around: Surroundings) -> None:
        quota = {QuotaKind.SIZE: BacklogQuota(5 << 20, -1, QuotaAction.HOLD)}
        await around.namespaces.create(SPACE)
        with pytest.raises(InvalidInput, match="backlog quota"):
            await around.namespaces.update_policies(
                SPACE, lambda _: Policies(retention=Retention(5, 5), backlog_quotas=quota)
            )

    run(scenario)


def test_namespace_with_topics_stays_and_stays_usable() -> None:
    async def scenario(around: Surroundings) -> None:
        await around.namespaces.create(SPACE)
        around.topics = ["persistent://t/n/x"]
        with pytest.raises(NotEmpty, match="1 topics: persistent://t/n/x"):
            await around.namespaces.delete(SPACE)
        await around.namespaces.require(SPACE)

    run(scenario)


def test_deletion_takes_everything_of_the_namespace() -> None:
    async def scenario(around: Surroundings) -> None:
        await around.namespaces.create(SPACE)
        await PartitionedTopics(around.store).create(TOPIC, 2)
        await TopicPolicies(around.store).update(TOPIC, lambda _: Policies(message_ttl_seconds=1))
        await around.namespaces.delete(SPACE)
        assert await around.namespaces.get(SPACE) is None
        assert await PartitionedTopics(around.store).get(TOPIC) is None
        assert await TopicPolicies(around.store).get(TOPIC) == Policies()
        await Tenants(around.store).delete("t")

    run(scenario)


def test_interrupted_deletion_takes_no_topics_and_is_finished_by_the_next() -> None:
    async def scenario(around: Surroundings) -> None:
        spaces = around.namespaces
        await spaces.create(SPACE)
        await spaces.mark_deleted(SPACE)
        with pytest.raises(NotFound, match="being deleted"):
            await spaces.require(SPACE)
        with pytest.raises(NotFound, match="being deleted"):
            await spaces.update_policies(SPACE, lambda _: Policies(message_ttl_seconds=1))
        with pytest.raises(AlreadyExists, match="delete it again"):
            await spaces.create(SPACE)
        await spaces.delete(SPACE)
        await spaces.create(SPACE)

    run(scenario)


def test_bootstrap_makes_what_clients_expect_and_can_be_repeated() -> None:
    async def scenario(around: Surroundings) -> None:
        spaces = around.namespaces
        home = NamespaceName("public", "default")
        await Clusters(around.store).update(
            "here", replace(CLUSTER, unknown={"proxyServiceUrl": "p"})
        )
        await spaces.bootstrap(CLUSTER)
        await spaces.update_policies(home, lambda _: Policies(message_ttl_seconds=5))
        moved = Cluster("http://moved:8080")
        await spaces.bootstrap(moved)
        assert await Clusters(around.store).get("here") == replace(
            moved, unknown={"proxyServiceUrl": "p"}
        )
        assert (await spaces.require(home)).policies.message_ttl_seconds == 5
        assert await Tenants(around.store).names() == ["public", "t"]

    run(scenario)


@pytest.mark.parametrize(
    ("count", "boundaries"),
    [
        (1, ("0x00000000", "0xffffffff")),
        (4, ("0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff")),
        (3, ("0x00000000", "0x55555555", "0xaaaaaaaa", "0xffffffff")),
    ],
)
def test_bundles_share_the_hash_space(count: int, boundaries: tuple[str, ...]) -> None:
    assert bundle_boundaries(count) == boundaries
    assert parse_new_namespace({"bundles": {"boundaries": list(boundaries)}}).bundles == boundaries


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"bundles": {"numBundles": 5000}},
        {"bundles": {"boundaries": ["0x00000000", "x"]}},
        {"bundles": {"boundaries": ["0x00000000"]}},
        {"bundles": {"boundaries": ["0x00000000", "0x80000000"]}},
        {"bundles": {"boundaries": ["0x00000000", "0x90000000", "0x80000000", "0xffffffff"]}},
        {"bundles": 3},
        {"properties": {"a": 1}},
        {"message_ttl_in_seconds": "soon"},
    ],
)
def test_wrong_body_is_refused(body: Json) -> None:
    with pytest.raises(InvalidInput):
        parse_new_namespace(body)


def test_nobody_creates_a_namespace_that_is_deleted_already() -> None:
    assert not parse_new_namespace({"deleted": True}).is_deleted


def test_damaged_record_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="/admin/policies/t/n"):
        parse_stored_namespace({"message_ttl_in_seconds": "soon"}, "/admin/policies/t/n")
