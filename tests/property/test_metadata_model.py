"""Engines against a dictionary: random operations of several sessions, faults and restarts.

After every step the store must hold exactly what the model holds. Watchers believe only what
their notifications made them re-read; whenever things are quiet they must believe the truth.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from anabranch import errors
from anabranch.metadata.store import (
    NEW,
    ChildrenChanged,
    Created,
    Deleted,
    MetadataStore,
    Modified,
    Notification,
    Resync,
    Stat,
    ancestors_of,
    child_path,
    is_within,
)
from tests.metadata_contract import EngineUnderTest
from tests.metadata_engines import (
    CachedMemoryEngine,
    MemoryEngine,
    SharedSqliteEngine,
    SqliteEngine,
)

T = TypeVar("T")

ELEMENTS = ("a", "b", "c")
PATHS = [f"/{x}" for x in ELEMENTS] + [f"/{x}/{y}" for x in ELEMENTS for y in ELEMENTS[:2]]
paths = st.sampled_from([*PATHS, "/a/a/a", "/a/a/b"])
values = st.binary(max_size=3)
sessions = st.integers(0, 2)
# Which version a compare-and-set names: the right one, one that was, or one that never was.
guesses = st.sampled_from(["any", "new", "current", "old", "never"])
NEVER = 2**40


@dataclass
class Row:
    value: bytes
    stat: Stat
    owner: object | None  # a session's token


class Mirror:
    """A watcher that knows only what notifications made it read."""

    def __init__(self, store: MetadataStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self.believed: dict[str, bytes] = {}
        self.told: list[Notification] = []
        self.watch = store.watch(prefix, self.heard)

    async def heard(self, notification: Notification) -> None:
        self.told.append(notification)
        try:
            match notification:
                case Resync(path):
                    self.believed = {}
                    await self.read_all(path)
                case Created(path) | Modified(path) | Deleted(path):
                    await self.read_one(path)
                case ChildrenChanged():
                    pass
        except errors.Unavailable:
            pass  # a Resync follows when the store is back

    async def read_one(self, path: str) -> None:
        found = await self.store.get(path)
        self.believed.pop(path, None)
        if found is not None:
            self.believed[path] = found[0]

    async def read_all(self, path: str) -> None:
        if path != "/":
            await self.read_one(path)
        for name in await self.store.children(path):
            await self.read_all(child_path(path, name))


@dataclass
class Client:
    store: MetadataStore
    mirror: Mirror
    token: object = field(default_factory=object)
    in_reach: bool = True


class MetadataMachine(RuleBasedStateMachine):
    engine: EngineUnderTest

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.engine = self.make_engine()
        self.model: dict[str, Row] = {}
        self.old_versions: dict[str, list[int]] = {}
        self.names: list[str] = []
        self.clients = [self.run(self.connect()) for _ in range(3)]

    def make_engine(self) -> EngineUnderTest:
        raise NotImplementedError

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def connect(self) -> Client:
        store = await self.engine.open_session()
        mirror = Mirror(store, "/")
        await mirror.read_all("/")
        return Client(store, mirror)

    def teardown(self) -> None:
        self.run(self.engine.shut_down())
        self.runner.close()
        shutil.rmtree(self.directory)

    # Operations, each compared with what the model says must happen

    @rule(session=sessions, path=paths, value=values, guess=guesses, ephemeral=st.booleans())
    def put(self, session: int, path: str, value: bytes, guess: str, ephemeral: bool) -> None:
        client = self.clients[session]
        expected = self.version_for(path, guess)
        error = self.put_error(client, path, expected, ephemeral)
        put = client.store.put(path, value, expected, ephemeral=ephemeral)
        if error is not None:
            with pytest.raises(error):
                self.run(put)
            return
        self.remember(client, path, value, self.run(put), ephemeral)

    @rule(session=sessions, path=paths)
    def put_sequential(self, session: int, path: str) -> None:
        client = self.clients[session]
        error = self.put_error(client, f"{path}-", NEW, ephemeral=False)
        put = client.store.put(path, b"", None, sequential=True)
        if error is not None:
            with pytest.raises(error):
                self.run(put)
            return
        stat = self.run(put)
        assert stat.path.startswith(f"{path}-")
        assert stat.path not in self.names
        assert all(stat.path > name for name in self.names if name.startswith(f"{path}-"))
        self.names.append(stat.path)
        self.remember(client, stat.path, b"", stat, ephemeral=False)

    @rule(session=sessions, path=paths, guess=guesses.filter(lambda guess: guess != "new"))
    def delete(self, session: int, path: str, guess: str) -> None:
        client = self.clients[session]
        expected = self.version_for(path, guess)
        row = self.model.get(path)
        error: type[Exception] | None = None
        if not client.in_reach:
            error = errors.Unavailable
        elif self.below(path):
            error = errors.NotEmpty
        elif row is None:
            error = errors.NotFound
        elif expected not in (None, row.stat.version):
            error = errors.BadVersion
        if error is not None:
            with pytest.raises(error):
                self.run(client.store.delete(path, expected))
            return
        self.run(client.store.delete(path, expected))
        del self.model[path]

    @rule(session=sessions, path=paths)
    def delete_recursive(self, session: int, path: str) -> None:
        client = self.clients[session]
        if client.in_reach:
            self.run(client.store.delete_recursive(path))
            self.model = {p: row for p, row in self.model.items() if not is_within(p, path)}

    @rule(path=paths, count=st.integers(2, 6))
    def race(self, path: str, count: int) -> None:
        """Of concurrent compare-and-sets on one version exactly one wins."""
        clients = [client for client in self.clients if client.in_reach]
        row = self.model.get(path)
        if not clients or row is None:
            return

        async def all_at_once() -> list[Stat | BaseException]:
            puts = [
                clients[n % len(clients)].store.put(path, b"%d" % n, row.stat.version)
                for n in range(count)
            ]
            return await asyncio.gather(*puts, return_exceptions=True)

        outcomes = self.run(all_at_once())
        won = [(n, o) for n, o in enumerate(outcomes) if isinstance(o, Stat)]
        assert len(won) == 1
        assert sum(isinstance(o, errors.BadVersion) for o in outcomes) == count - 1
        number, stat = won[0]
        self.remember(clients[number % len(clients)], path, b"%d" % number, stat, ephemeral=False)

    # Sessions and restarts

    @rule(session=sessions)
    def close_and_open_again(self, session: int) -> None:
        client = self.clients[session]
        if not client.in_reach:
            return
        # The last session of sqlite closes the file too: so there are always others.
        self.run(client.store.close())
        self.end_session(client)
        self.clients[session] = self.run(self.connect())

    @precondition(lambda self: self.engine.loses_sessions)
    @rule(session=sessions)
    def disconnect(self, session: int) -> None:
        client = self.clients[session]
        if client.in_reach:
            self.run(self.engine.disconnect(client.store))
            client.in_reach = False

    @precondition(lambda self: self.engine.loses_sessions)
    @rule(session=sessions)
    def expire(self, session: int) -> None:
        client = self.clients[session]
        self.run(self.engine.expire(client.store))
        self.end_session(client)
        client.in_reach = False

    @precondition(lambda self: self.engine.loses_sessions)
    @rule(session=sessions)
    def reconnect(self, session: int) -> None:
        client = self.clients[session]
        if not client.in_reach:
            self.run(self.engine.reconnect(client.store))
            client.in_reach = True

    @precondition(lambda self: self.engine.survives_restart)
    @rule()
    def kill_and_restart(self) -> None:
        self.run(self.engine.kill_and_restart())
        for client in self.clients:
            self.end_session(client)
        self.clients = [self.run(self.connect()) for _ in self.clients]

    # What must hold after every step

    @invariant()
    def the_store_is_the_model(self) -> None:
        async def check() -> None:
            for client in self.clients:
                if client.in_reach:
                    await self.compare(client)

        self.run(check())

    @invariant()
    def quiet_watchers_believe_the_truth(self) -> None:
        truth = {path: row.value for path, row in self.model.items()}
        mirrors = [client.mirror for client in self.clients if client.in_reach]

        async def settle() -> None:
            for mirror in mirrors:
                await mirror.store.sync("/")
            # Quiet comes by itself: turns of the loop bring it, not time.
            for _ in range(5_000):
                if all(mirror.believed == truth for mirror in mirrors):
                    return
                await asyncio.sleep(0)

        self.run(settle())
        for mirror in mirrors:
            assert mirror.believed == truth, mirror.told
            check_order(mirror.told)

    async def compare(self, client: Client) -> None:
        await client.store.sync("/")
        for path in {*PATHS, *self.model}:
            row, found = self.model.get(path), await client.store.get(path)
            assert (found is None) == (row is None), path
            if row is not None and found is not None:
                assert found[0] == row.value
                assert as_seen_by(client, row) == found[1]
        for path in ("/", *PATHS):
            assert await client.store.children(path) == self.children(path)

    # The model

    def version_for(self, path: str, guess: str) -> int | None:
        row = self.model.get(path)
        old = self.old_versions.get(path, [])
        match guess:
            case "any":
                return None
            case "new":
                return NEW
            case "current":
                return row.stat.version if row else NEVER
            case "old":
                return old[0] if old and (row is None or old[0] != row.stat.version) else NEVER
        return NEVER

    def put_error(
        self, client: Client, path: str, expected: int | None, ephemeral: bool
    ) -> type[Exception] | None:
        row = self.model.get(path)
        if not client.in_reach:
            return errors.Unavailable
        if expected is not None and expected != (NEW if row is None else row.stat.version):
            return errors.BadVersion
        if row is None and ephemeral and self.below(path):
            return errors.InvalidInput
        above = [self.model[p] for p in ancestors_of(path) if p in self.model]
        if row is None and any(parent.owner is not None for parent in above):
            return errors.InvalidInput
        return None

    def remember(
        self, client: Client, path: str, value: bytes, stat: Stat, ephemeral: bool
    ) -> None:
        before = self.model.get(path)
        assert stat.version not in self.old_versions.setdefault(path, [])
        self.old_versions[path].append(stat.version)
        assert stat.first_version == (before is None)
        owner = before.owner if before else (client.token if ephemeral else None)
        if before is not None:
            assert stat.created_ms == before.stat.created_ms
        self.model[path] = Row(value, stat, owner)
        assert stat == as_seen_by(client, self.model[path])

    def end_session(self, client: Client) -> None:
        self.model = {p: row for p, row in self.model.items() if row.owner is not client.token}
        client.token = object()

    def below(self, path: str) -> list[str]:
        return [p for p in self.model if p != path and is_within(p, path)]

    def children(self, path: str) -> list[str]:
        start = 1 if path == "/" else len(path) + 1
        return sorted({p[start:].split("/")[0] for p in self.below(path)})


def as_seen_by(client: Client, row: Row) -> Stat:
    return Stat(
        path=row.stat.path,
        version=row.stat.version,
        created_ms=row.stat.created_ms,
        modified_ms=row.stat.modified_ms,
        ephemeral=row.owner is not None,
        created_by_self=row.owner is client.token,
        first_version=row.stat.first_version,
    )


def check_order(told: list[Notification]) -> None:
    """Per path: never two creations, or two deletions, without the other between."""
    alive: dict[str, bool] = {}
    for notification in told:
        match notification:
            case Resync():
                alive.clear()
            case Created(path):
                assert not alive.get(path, False), told
                alive[path] = True
            case Modified(path):
                assert alive.get(path, True), told
                alive[path] = True
            case Deleted(path):
                assert alive.get(path, True), told
                alive[path] = False
            case ChildrenChanged():
                pass


class MemoryMachine(MetadataMachine):
    def make_engine(self) -> EngineUnderTest:
        return MemoryEngine()


class CachedMachine(MetadataMachine):
    def make_engine(self) -> EngineUnderTest:
        return CachedMemoryEngine()


class SqliteMachine(MetadataMachine):
    def make_engine(self) -> EngineUnderTest:
        return SqliteEngine(self.directory)


class SharedSqliteMachine(MetadataMachine):
    def make_engine(self) -> EngineUnderTest:
        return SharedSqliteEngine(self.directory)


def profile(max_examples: int) -> settings:
    return settings(
        max_examples=max_examples,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


MemoryMachine.TestCase.settings = profile(30)
CachedMachine.TestCase.settings = profile(30)
SqliteMachine.TestCase.settings = profile(15)
SharedSqliteMachine.TestCase.settings = profile(6)

TestMemoryAgainstModel = MemoryMachine.TestCase
TestCacheAgainstModel = CachedMachine.TestCase
TestSharedSqliteAgainstModel = SharedSqliteMachine.TestCase
TestSqliteAgainstModel = SqliteMachine.TestCase
