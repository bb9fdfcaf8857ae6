"""Namespaces: their records in the metadata store, and their end.

    /admin/policies/{tenant}/{namespace}
        {"bundles": {"boundaries": ["0x00000000", …, "0xffffffff"], "numBundles": 4},
         "replication_clusters": ["standalone"], "deleted": false, … the policies of policies.py}

A namespace is deleted in steps that a crash may interrupt: the record is marked, so that no topic
can be created any more; then the topics are counted; then everything of the namespace goes, the
record last. Deleting it again takes up where it stopped, and a namespace that turns out to have
topics is unmarked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeAlias

from anabranch.broker.partitions import partitioned_topics_path
from anabranch.broker.policies import (
    NOTHING_SET,
    Policies,
    contradictions,
    parse_policies,
    parse_stored_policies,
)
from anabranch.broker.record_update import (
    change_record,
    create_record,
    delete_record,
    load_record,
)
from anabranch.broker.tenants import Cluster, Clusters, Tenant, Tenants, check_name, tenant_path
from anabranch.broker.topic_policies import topic_policies_path
from anabranch.errors import AlreadyExists, InvalidInput, NotAllowed, NotEmpty, NotFound
from anabranch.metadata.store import MetadataStore
from anabranch.topics.json_fields import Fields, Json
from anabranch.topics.names import DEFAULT_NAMESPACE, DEFAULT_TENANT, NamespaceName

DEFAULT_BUNDLES: Final = 4
MAX_BUNDLES: Final = 1024
_HASH_SPACE: Final = 1 << 32

# Every topic of a namespace, whatever its domain; the broker knows them, this module does not.
TopicLister: TypeAlias = Callable[[NamespaceName], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    bundles: tuple[str, ...]  # the boundaries, one more than there are bundles
    clusters: tuple[str, ...] = ()
    policies: Policies = NOTHING_SET
    is_deleted: bool = False  # marked: takes no new topics, and goes as soon as it has none
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        return self.policies.to_json() | {
            "bundles": {"boundaries": list(self.bundles), "numBundles": len(self.bundles) - 1},
            "replication_clusters": list(self.clusters),
            "deleted": self.is_deleted,
            "properties": dict(self.properties),
        }


class Namespaces:
    def __init__(
        self,
        store: MetadataStore,
        topics_of: TopicLister,
        *,
        cluster: str,
        max_per_tenant: int = 0,
        default_bundles: int = DEFAULT_BUNDLES,
    ) -> None:
        self._store = store
        self._topics_of = topics_of
        self._cluster = cluster
        self._max_per_tenant = max_per_tenant
        self._default_bundles = default_bundles
        self._tenants = Tenants(store)

    def limit(self, max_per_tenant: int, default_bundles: int) -> None:
        """Both may change while the broker runs."""
        self._max_per_tenant = max_per_tenant
        self._default_bundles = default_bundles

    async def of_tenant(self, tenant: str) -> list[NamespaceName]:
        await self._tenants.require(tenant)
        return [NamespaceName(tenant, each) for each in await self._children(tenant)]

    async def get(self, name: NamespaceName) -> NamespaceRecord | None:
        return await load_record(self._store, namespace_path(name), parse_stored_namespace)

    async def require(self, name: NamespaceName) -> NamespaceRecord:
        """The record, for somebody who wants to use the namespace."""
        found = await self.get(name)
        if found is None or found.is_deleted:
            raise NotFound(f"namespace {name} {'is being deleted' if found else 'does not exist'}")
        return found

    async def create(self, name: NamespaceName, raw: Json = None) -> NamespaceRecord:
        """`raw` is the body of the request: policies and bundles, or nothing."""
        path = namespace_path(name)
        record = parse_new_namespace(raw, self._default_bundles)
        tenant = await self._tenants.require(name.tenant)
        record = self._with_clusters(name, record, tenant)
        await self._check_room(name)
        try:
            await create_record(self._store, path, record.to_json(), f"namespace {name}")
        except AlreadyExists:
            found = await self.get(name)
            if found is not None and found.is_deleted:
                raise AlreadyExists(
                    f"namespace {name} is being deleted; delete it again to finish that"
                ) from None
            raise
        # The tenant may have gone while we wrote below it; it must not live on as a mere path.
        if await self._tenants.get(name.tenant) is None:
            await self._store.delete_recursive(path)
            raise NotFound(f"tenant {name.tenant} was deleted meanwhile")
        return record

    async def update_policies(
        self, name: NamespaceName, change: Callable[[Policies], Policies]
    ) -> NamespaceRecord:
        """`change` may be called again. InvalidInput if the result does not go together."""

        def changed(record: NamespaceRecord) -> NamespaceRecord:
            if record.is_deleted:
                raise NotFound(f"namespace {name} is being deleted")
            policies = change(record.policies)
            problems = contradictions(policies)
            if problems:
                raise InvalidInput(f"namespace {name}: {'; '.join(problems)}")
            return replace(record, policies=policies)

        return await self._change(name, changed)

    async def update_properties(
        self, name: NamespaceName, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> NamespaceRecord:
        return await self._change(
            name, lambda record: replace(record, properties=dict(change(record.properties)))
        )

    async def mark_deleted(self, name: NamespaceName, *, is_deleted: bool = True) -> None:
        """From here on it takes no new topics. First step of a forced deletion, too."""
        await self._change(name, lambda record: replace(record, is_deleted=is_deleted))

    async def delete(self, name: NamespaceName) -> None:
        """NotEmpty if it has topics; then nothing has changed."""
        await self.mark_deleted(name)
        topics = await self._topics_of(name)
        if topics:
            await self.mark_deleted(name, is_deleted=False)
            shown = ", ".join(sorted(topics)[:3])
            raise NotEmpty(f"namespace {name} has {len(topics)} topics: {shown}")
        for path in (partitioned_topics_path(name), topic_policies_path(name)):
            await self._store.delete_recursive(path)
        await delete_record(self._store, namespace_path(name), f"namespace {name}")

    async def bootstrap(self, cluster: Cluster) -> None:
        """Make what every client expects: this cluster, tenant public, namespace public/default.

        What is there already stays as it is, except that our own address is kept up to date.
        """
        clusters = Clusters(self._store)
        try:
            await clusters.create(self._cluster, cluster)
        except AlreadyExists:
            known = await clusters.get(self._cluster)
            rest = {} if known is None else known.unknown
            await clusters.update(self._cluster, replace(cluster, unknown=rest))
        home = NamespaceName(DEFAULT_TENANT, DEFAULT_NAMESPACE)
        if await self._tenants.get(home.tenant) is None:
            await self._create_unless_there(home.tenant)
        if await self.get(home) is None:
            try:
                await self.create(home)
            except AlreadyExists:
                return

    async def _create_unless_there(self, tenant: str) -> None:
        try:
            await self._tenants.create(tenant, Tenant((), (self._cluster,)))
        except AlreadyExists:
            return

    async def _change(
        self, name: NamespaceName, change: Callable[[NamespaceRecord], NamespaceRecord]
    ) -> NamespaceRecord:
        return await change_record(
            self._store, namespace_path(name), parse_stored_namespace, change,
            NamespaceRecord.to_json, f"namespace {name}",
        )  # fmt: skip

    def _with_clusters(
        self, name: NamespaceName, record: NamespaceRecord, tenant: Tenant
    ) -> NamespaceRecord:
        clusters = record.clusters or (self._cluster,)
        denied = [each for each in clusters if each not in tenant.allowed_clusters]
        if denied:
            raise InvalidInput(
                f"namespace {name}: tenant {name.tenant} may not use {', '.join(denied)}, "
                f"only {', '.join(tenant.allowed_clusters)}"
            )
        return replace(record, clusters=clusters)

    async def _check_room(self, name: NamespaceName) -> None:
        if self._max_per_tenant <= 0:
            return
        count = len(await self._children(name.tenant))
        if count >= self._max_per_tenant:
            raise NotAllowed(
                f"tenant {name.tenant} has {count} namespaces; "
                f"maxNamespacesPerTenant is {self._max_per_tenant}"
            )

    async def _children(self, tenant: str) -> list[str]:
        return await self._store.children(tenant_path(tenant))


def namespace_path(name: NamespaceName) -> str:
    return f"{tenant_path(name.tenant)}/{check_name(name.namespace, 'namespace')}"


def parse_stored_namespace(raw: Json, path: str) -> NamespaceRecord:
    return _read_namespace(raw, path, parse_stored_policies, Fields(raw, path))


def parse_new_namespace(raw: Json, default_bundles: int = DEFAULT_BUNDLES) -> NamespaceRecord:
    body: Json = {} if raw is None else raw
    source = Fields(body, "namespace", InvalidInput)
    record = _read_namespace(body, "namespace", parse_policies, source)
    return replace(
        record,
        bundles=record.bundles or bundle_boundaries(default_bundles),
        is_deleted=False,
    )


def bundle_boundaries(count: int) -> tuple[str, ...]:
    """Equal shares of the hash space; the last boundary is its last value, not one beyond it."""
    if not 1 <= count <= MAX_BUNDLES:
        raise InvalidInput(f"numBundles is {count}; it can be 1 to {MAX_BUNDLES}")
    width = _HASH_SPACE // count
    return (*(f"0x{index * width:08x}" for index in range(count)), "0xffffffff")


def _read_namespace(
    raw: Json, path: str, parse: Callable[[Json, str], Policies], source: Fields
) -> NamespaceRecord:
    bundles = _read_bundles(source)
    properties = source.texts("properties")
    is_deleted = source.optional_flag("deleted") or False
    clusters = tuple(sorted({str(each) for each in source.items("replication_clusters")}))
    # The parts of the record proper are no unknown policies.
    policies = parse(source.rest(), path)
    return NamespaceRecord(bundles, clusters, policies, is_deleted, properties)


def _read_bundles(source: Fields) -> tuple[str, ...]:
    if not source.has("bundles"):
        return ()
    bundles = source.nested("bundles")
    boundaries = tuple(str(each) for each in bundles.items("boundaries"))
    count = bundles.optional_integer("numBundles") or 0
    if boundaries:
        return _check_boundaries(boundaries)
    return bundle_boundaries(count) if count > 0 else ()


def _check_boundaries(boundaries: tuple[str, ...]) -> tuple[str, ...]:
    try:
        values = [int(each, 16) for each in boundaries]
    except ValueError:
        values = []
    ascending = all(left < right for left, right in pairwise(values))
    whole = len(values) > 1 and values[0] == 0 and values[-1] == _HASH_SPACE - 1
    if not (ascending and whole and len(values) <= MAX_BUNDLES + 1):
        raise InvalidInput(
            "bundles.boundaries must be hex numbers that rise from 0x00000000 to 0xffffffff, "
            f"at most {MAX_BUNDLES + 1}"
        )
    return tuple(f"0x{each:08x}" for each in values)
