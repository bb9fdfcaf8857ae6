"""A metadata store in memory, and rivals that get between a read and a write of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from anabranch.metadata.memory import MemoryTree
from anabranch.metadata.store import MetadataStore, Stat
from anabranch.metadata.tree_session import TreeSession
from tests.managed_world import ManualClock

Rival = Callable[[MetadataStore], Awaitable[None]]


def memory_store() -> TreeSession:
    return MemoryTree(ManualClock()).open_session()


class ContendedStore(TreeSession):
    """Before each of the next writes, the next of its rivals acts on the same tree."""

    def __init__(self, tree: MemoryTree) -> None:
        other = tree.open_session()
        super().__init__(tree, other.session)
        self._other = other
        self.rivals: list[Rival] = []

    async def put(
        self,
        path: str,
        value: bytes,
        expected: int | None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Stat:
        if self.rivals:
            await self.rivals.pop(0)(self._other)
        return await super().put(path, value, expected, ephemeral=ephemeral, sequential=sequential)


def contended_store() -> ContendedStore:
    return ContendedStore(MemoryTree(ManualClock()))
