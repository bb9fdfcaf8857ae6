"""Everything the admin API offers."""

from __future__ import annotations

from anabranch.admin.endpoints import Endpoint
from anabranch.admin.rest import (
    broker_stats,
    brokers,
    clusters,
    lookup,
    namespace_policies,
    namespaces,
    non_persistent,
    partitions,
    root,
    schemas,
    subscriptions,
    tenants,
    topic_policies,
    topics,
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *root.ENDPOINTS,
    *clusters.ENDPOINTS,
    *tenants.ENDPOINTS,
    *namespaces.ENDPOINTS,
    *namespace_policies.ENDPOINTS,
    *topics.ENDPOINTS,
    *partitions.ENDPOINTS,
    *subscriptions.ENDPOINTS,
    *topic_policies.ENDPOINTS,
    *non_persistent.ENDPOINTS,
    *lookup.ENDPOINTS,
    *schemas.ENDPOINTS,
    *brokers.ENDPOINTS,
    *broker_stats.ENDPOINTS,
)
