"""Stores that misbehave on purpose, for tests of what is built on a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from random import Random
from typing import TypeVar

from anabranch.errors import Unavailable
from anabranch.metadata.store import Listener, MetadataStore, SessionListener, Stat, Watch
from anabranch.runtime.system import system_world
from anabranch.runtime.world import World

T = TypeVar("T")


class Impatient(Random):
    """Turns every random delay into none, so that retries cost turns of the loop, not time."""

    def uniform(self, a: float, b: float) -> float:
        return 0.0


def impatient_world(directory: Path) -> World:
    real = system_world(directory)
    return World(real.clock, Impatient(0), real.disk, real.network)


class Wrapped:
    """Passes everything on through `_call`, where a subclass may interfere."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store

    async def _call(self, name: str, work: Awaitable[T]) -> T:
        return await work

    async def get(self, path: str) -> tuple[bytes, Stat] | None:
        return await self._call("get", self.store.get(path))

    async def put(
        self,
        path: str,
        value: bytes,
        expected: int | None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Stat:
        put = self.store.put(path, value, expected, ephemeral=ephemeral, sequential=sequential)
        return await self._call("put", put)

    async def delete(self, path: str, expected: int | None = None) -> None:
        await self._call("delete", self.store.delete(path, expected))

    async def delete_recursive(self, path: str) -> None:
        await self._call("delete_recursive", self.store.delete_recursive(path))

    async def exists(self, path: str) -> bool:
        return await self._call("exists", self.store.exists(path))

    async def children(self, path: str) -> list[str]:
        return await self._call("children", self.store.children(path))

    async def scan(self, path: str) -> AsyncIterator[tuple[bytes, Stat]]:
        async for record in self.store.scan(path):
            yield record

    async def sync(self, path: str) -> None:
        await self._call("sync", self.store.sync(path))

    def watch(self, prefix: str, listener: Listener, *, recursive: bool = True) -> Watch:
        return self.store.watch(prefix, listener, recursive=recursive)

    def on_session(self, listener: SessionListener) -> Watch:
        return self.store.on_session(listener)

    async def close(self) -> None:
        await self.store.close()


class Flaky(Wrapped):
    """Calls fail at random, before they took effect or after; each takes some turns."""

    def __init__(self, store: MetadataStore, random: Random, failures: float) -> None:
        super().__init__(store)
        self.failures = failures
        self._random = random

    async def _call(self, name: str, work: Awaitable[T]) -> T:
        task = asyncio.ensure_future(work)
        if self._fails():
            task.cancel()  # before its first step: it never happens
            raise Unavailable(f"{name} lost on its way there")
        result = await task
        for _ in range(self._random.randrange(4)):
            await asyncio.sleep(0)
        if self._fails():
            raise Unavailable(f"{name} done, answer lost")
        return result

    def _fails(self) -> bool:
        return self._random.random() < self.failures


class Gated(Wrapped):
    """Answers of the calls that are named are held back while the gate is closed."""

    def __init__(self, store: MetadataStore, *names: str) -> None:
        super().__init__(store)
        self.calls = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._names = names

    async def reached(self, calls: int) -> None:
        """Return once that many answers have come as far as the gate."""
        for _ in range(1_000):
            if self.calls >= calls:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{self.calls} calls, not {calls}")

    async def _call(self, name: str, work: Awaitable[T]) -> T:
        result = await work
        if name in self._names:
            self.calls += 1
            await self.gate.wait()
        return result
