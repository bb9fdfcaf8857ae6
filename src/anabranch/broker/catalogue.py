"""What a name stands for: which topics exist, which may be made, and under which policies.

The records lie in the metadata store, the loaded topics in `Topics`; this joins the two.
"""

from __future__ import annotations

from anabranch.broker.config_parts import AdminConfig
from anabranch.broker.namespaces import Namespaces
from anabranch.broker.partitions import PartitionedTopics
from anabranch.broker.policies import EffectivePolicies, resolve
from anabranch.broker.policy_values import TopicKind
from anabranch.broker.tenants import Clusters, Tenants
from anabranch.broker.topic import Topic
from anabranch.broker.topic_policies import TopicPolicies
from anabranch.broker.topics import Topics
from anabranch.errors import AlreadyExists, NotAllowed, NotFound, TopicNotFound
from anabranch.metadata.store import MetadataStore
from anabranch.storage.managed_ledger import Surroundings
from anabranch.topics.names import Domain, NamespaceName, TopicName


class Catalogue:
    def __init__(
        self,
        store: MetadataStore,
        around: Surroundings,
        broker_policies: EffectivePolicies,
        *,
        cluster: str,
    ) -> None:
        self.cluster = cluster
        self.topics = Topics(around, store, self.policies_of)
        self.clusters = Clusters(store)
        self.tenants = Tenants(store)
        self.namespaces = Namespaces(store, self._names_of, cluster=cluster)
        self.partitioned = PartitionedTopics(store)
        self.topic_policies = TopicPolicies(store)
        self._broker_policies = broker_policies

    async def reconfigure(self, policies: EffectivePolicies, limits: AdminConfig) -> None:
        """What the broker itself says has changed, for every topic."""
        self._broker_policies = policies
        self.limit(limits)
        await self.topics.refresh_policies(lambda _: True)

    def limit(self, limits: AdminConfig) -> None:
        self.namespaces.limit(limits.max_namespaces_per_tenant, limits.namespace_bundles)
        self.partitioned.limit(limits.max_partitions)

    async def policies_of(self, name: TopicName) -> EffectivePolicies:
        namespace = await self.namespaces.get(name.namespace)
        if namespace is None:
            raise NotFound(f"namespace {name.namespace} does not exist")
        return resolve(
            self._broker_policies,
            namespace.policies,
            await self.topic_policies.get(name.base),
            cluster=self.cluster,
        )

    async def policies_of_namespace(self, name: NamespaceName) -> EffectivePolicies:
        """What holds for a topic for which nothing else is set."""
        record = await self.namespaces.require(name)
        return resolve(self._broker_policies, record.policies, cluster=self.cluster)

    async def check_reachable(self, name: TopicName) -> None:
        """TopicNotFound if it neither exists nor would be made on demand."""
        check_served(name)
        if name.partition is None and await self.partitioned.get(name) is not None:
            return
        if await self.topics.exists(name):
            return
        if not (await self._creation_policies(name)).auto_topic_creation.is_allowed:
            raise TopicNotFound(f"topic {name} does not exist, and is not made on demand")

    async def _names_of(self, namespace: NamespaceName) -> list[str]:
        return [str(name) for name in await self.topics.of_namespace(namespace)]

    async def partitions_of(self, name: TopicName, *, may_create: bool) -> int:
        """How many; 0: none, though it may not exist yet. Makes it where policy says so."""
        check_served(name)
        found = await self.partitioned.get(name)
        if found is not None and found.is_deleted:
            raise TopicNotFound(f"topic {name} is being deleted")
        if found is not None:
            return found.partitions
        if await self.topics.exists(name):
            return 0
        policies = await self._creation_policies(name)
        creation = policies.auto_topic_creation
        if not may_create or not creation.is_allowed or name.partition is not None:
            if name.partition is not None and may_create and creation.is_allowed:
                return 0
            raise TopicNotFound(f"topic {name} does not exist, and is not made on demand")
        if creation.kind is not TopicKind.PARTITIONED:
            return 0
        await self.check_room(name, creation.partitions or 1)
        try:
            return (await self.partitioned.create(name, creation.partitions or 1)).partitions
        except AlreadyExists:
            return await self.partitions_of(name, may_create=False)

    async def _creation_policies(self, name: TopicName) -> EffectivePolicies:
        try:
            await self.namespaces.require(name.namespace)
            return await self.policies_of(name)
        except NotFound as error:
            raise TopicNotFound(f"{name}: {error}") from error

    async def open_topic(self, name: TopicName, *, may_create: bool = True) -> Topic:
        """The topic, loaded; made first if it is missing, wanted and allowed."""
        check_served(name)
        if str(name) in self.topics.loaded or await self.topics.exists(name):
            return await self.topics.get(name)
        partitioned = await self.partitioned.get(name.base)
        if partitioned is not None and partitioned.is_deleted:
            raise TopicNotFound(f"topic {name.base} is being deleted")
        if name.partition is None and partitioned is not None:
            raise NotAllowed(
                f"{name} has {partitioned.partitions} partitions; use {name}-partition-0 and so on"
            )
        is_known = partitioned is not None and (name.partition or 0) < partitioned.partitions
        if not is_known:
            policies = await self._creation_policies(name)
            if not may_create or not policies.auto_topic_creation.is_allowed:
                raise TopicNotFound(f"topic {name} does not exist, and is not made on demand")
            await self.check_room(name, 1)
        return await self.topics.get(name, is_created=True)

    async def check_room(self, name: TopicName, count: int) -> None:
        """NotAllowed if the namespace may not have so many topics more."""
        limit = (await self.policies_of(name)).max_topics_per_namespace
        if limit <= 0 or count <= 0:
            return
        there = len(await self.topics.of_namespace(name.namespace))
        if there + count > limit:
            raise NotAllowed(f"namespace {name.namespace} has {there} topics, its limit is {limit}")


def check_served(name: TopicName) -> None:
    if name.domain is Domain.NON_PERSISTENT:
        raise NotAllowed(f"{name}: non-persistent topics are not served")
    if name.domain is not Domain.PERSISTENT:
        raise NotAllowed(f"{name}: scalable topics are not enabled here")
