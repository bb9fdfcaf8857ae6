"""The topics of this broker: found by name, made where policy allows, loaded once.

A topic exists if its managed ledger has a record. Loading takes the ledger over, so it happens
once at a time for a name, and everybody who asks meanwhile waits for the same load.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from anabranch.broker.ledger_records import StoredLedgerRecords
from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.topic import Topic
from anabranch.errors import (
    AlreadyExists,
    AnabranchError,
    BadVersion,
    NotAllowed,
    NotFound,
    NotReady,
    Stale,
    TopicNotFound,
    Unavailable,
)
from anabranch.metadata import records
from anabranch.metadata.store import (
    NEW,
    Created,
    Deleted,
    MetadataStore,
    Notification,
    Resync,
    Watch,
    parent_of,
)
from anabranch.storage.managed_ledger import Surroundings, load_managed_ledger
from anabranch.storage.managed_record import ManagedRecord
from anabranch.topics.names import Domain, NamespaceName, TopicName, parse_topic_name

log = logging.getLogger(__name__)

LOAD_ATTEMPTS = 5
# They share the disk's commits, so a few hundred at once end sooner than one by one.
UNLOADS_AT_ONCE = 256

PoliciesOf = Callable[[TopicName], Awaitable[EffectivePolicies]]


class Topics:
    def __init__(self, around: Surroundings, store: MetadataStore, policies_of: PoliciesOf) -> None:
        self._around = around
        self._records = StoredLedgerRecords(store)
        self._store = store
        self._policies_of = policies_of
        self._loading: dict[str, asyncio.Task[Topic]] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._doubted: dict[TopicName, asyncio.Task[None]] = {}
        self._policy_changes = 0
        self._is_closed = False
        self.loaded: dict[str, Topic] = {}

    async def exists(self, name: TopicName) -> bool:
        if str(name) in self.loaded:
            return True
        await self._ended(str(name))
        return await self._records.load(str(name)) is not None

    async def _ended(self, key: str) -> None:
        """Until nothing of it is on its way out: taken over now, it would lose what is."""
        while key in self._ending:
            await asyncio.wait([self._ending[key]])

    async def get(
        self,
        name: TopicName,
        *,
        is_created: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> Topic:
        """Load it; with `is_created`, make it if it does not exist, else TopicNotFound."""
        key = str(name)
        topic = self.loaded.get(key)
        if topic is not None and topic.ledger.ended_by is None:
            return topic
        await self._ended(key)
        loading = self._loading.get(key)
        if loading is None:
            if not is_created and not await self.exists(name):
                raise TopicNotFound(f"topic {name} does not exist")
            loading = self._loading.get(key)
        if self._is_closed:
            # Clients whose topics were unloaded are still connected, and ask for them at once.
            raise NotReady(f"topic {name} is not loaded: this broker stops")
        if loading is None:
            loading = self._loading[key] = asyncio.create_task(
                self._load(name, properties), name=f"load {name}"
            )
            loading.add_done_callback(partial(self._loaded, key))
        return await asyncio.shield(loading)

    def _loaded(self, key: str, loading: asyncio.Task[Topic]) -> None:
        self._loading.pop(key, None)
        if not loading.cancelled():
            loading.exception()  # whoever asked may be gone: then nobody is told, and need not be

    async def _load(self, name: TopicName, properties: Mapping[str, str] | None) -> Topic:
        if name.domain is not Domain.PERSISTENT:
            raise NotAllowed(f"{name}: only persistent topics are served here")
        for _ in range(LOAD_ATTEMPTS):
            try:
                ledger = await load_managed_ledger(str(name), self._around, properties=properties)
            except BadVersion:
                continue
            policies = await self._policies_of(name)
            topic = Topic(name, ledger, self._around.store, self._around.clock, policies)
            topic.on_doubt = partial(self._reload, topic)
            # Those attached to an instance that has ended would wait for ever.
            ledger.on_end(partial(self._lost, topic))
            await self._enter(topic)
            return topic
        raise Unavailable(f"{name} changed owners {LOAD_ATTEMPTS} times while being loaded")

    async def _enter(self, topic: Topic) -> None:
        """From here on it is told of changed policies; those it missed meanwhile it gets now."""
        seen = -1
        while seen != self._policy_changes:
            seen = self._policy_changes
            await topic.apply_policies(await self._policies_of(topic.name))
        self.loaded[str(topic.name)] = topic

    async def create(self, name: TopicName, properties: Mapping[str, str] | None = None) -> None:
        """Its record alone: it is loaded when somebody uses it. AlreadyExists."""
        try:
            await self._records.save(str(name), ManagedRecord(properties=properties or {}), NEW)
        except BadVersion:
            raise AlreadyExists(f"topic {name} exists already") from None

    async def unload(self, name: TopicName) -> None:
        topic = self.loaded.get(str(name))
        if topic is None:
            raise TopicNotFound(f"topic {name} is not loaded here")
        await self._end(topic, topic.unload())

    def _lost(self, topic: Topic, error: AnabranchError) -> None:
        topic.on_doubt()

    def _reload(self, topic: Topic) -> None:
        """Whoever uses it comes back, to an instance that has read what is on disk."""
        if self.loaded.get(str(topic.name)) is topic and topic.name not in self._doubted:
            log.warning("topic in doubt, it is loaded anew topic=%s", topic.name)
            task = asyncio.create_task(self._end(topic, topic.unload()))
            self._doubted[topic.name] = task
            task.add_done_callback(partial(self._reloaded, topic.name))

    def _reloaded(self, name: TopicName, task: asyncio.Task[None]) -> None:
        del self._doubted[name]
        if not task.cancelled() and task.exception() is not None:
            log.warning("topic abandoned topic=%s error=%r", name, task.exception())

    async def delete(self, name: TopicName, check: Callable[[Topic], None] | None = None) -> None:
        """`check` may raise to refuse; between it and the end of its producers nothing runs."""
        topic = await self.get(name)
        if check is not None:
            check(topic)
        await self._end(topic, topic.delete())

    async def _end(self, topic: Topic, work: Coroutine[Any, Any, None]) -> None:
        """Nobody finds it any more, and whoever asks for it waits until it is gone."""
        key = str(topic.name)
        if self.loaded.get(key) is not topic:
            work.close()
            raise TopicNotFound(f"topic {topic.name} is not loaded here")
        del self.loaded[key]
        # At once, before anything else can run: what it has checked of the topic still holds.
        topic.disconnect_all()
        ending = self._ending[key] = asyncio.create_task(work, name=f"end {key}")
        ending.add_done_callback(lambda _: self._ending.pop(key, None))
        await asyncio.shield(ending)

    async def refresh_policies(self, is_meant: Callable[[TopicName], bool]) -> None:
        """What holds for these topics has changed; those that are loaded learn of it."""
        self._policy_changes += 1
        for topic in [each for each in self.loaded.values() if is_meant(each.name)]:
            try:
                await topic.apply_policies(await self._policies_of(topic.name))
            except (NotFound, Stale):
                continue  # it, or its namespace, is on its way out

    async def of_namespace(self, namespace: NamespaceName) -> list[TopicName]:
        """Every persistent topic and partition there is, loaded or not, by name."""
        children = await self._store.children(self._path_of(namespace))
        names = map(records.decode_element, children)
        return [parse_topic_name(f"persistent://{namespace}/{name}") for name in sorted(names)]

    def watch(self, namespace: NamespaceName, on_change: Callable[[], None]) -> Watch:
        """Call back whenever a topic of the namespace may have come or gone."""
        path = self._path_of(namespace)

        def notice(notification: Notification) -> None:
            if isinstance(notification, Resync) or (
                isinstance(notification, Created | Deleted) and parent_of(notification.path) == path
            ):
                on_change()

        return self._store.watch(path, notice)

    def _path_of(self, namespace: NamespaceName) -> str:
        return records.managed_ledgers(
            namespace.tenant, namespace.namespace, Domain.PERSISTENT.value
        )

    async def close(self) -> None:
        self._is_closed = True
        loading = list(self._loading.values())
        for task in loading:
            task.cancel()
        if loading or self._ending:
            await asyncio.wait([*loading, *self._ending.values()])
        topics, self.loaded = list(self.loaded.values()), {}
        for start in range(0, len(topics), UNLOADS_AT_ONCE):
            await asyncio.gather(*map(_unload, topics[start : start + UNLOADS_AT_ONCE]))


async def _unload(topic: Topic) -> None:
    try:
        await topic.unload()
    except Exception:
        log.exception("unloading topic=%s", topic.name)
