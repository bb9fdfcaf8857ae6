"""The records of a store as a tree in memory, and what an operation does to it. Pure.

Operations are decided on a `Draft`, which lays its changes over the tree without touching it, so
that an engine can make them durable first: readers go on seeing the tree as it was. `commit` then
puts the draft into the tree and returns the notifications. Operations of one draft see each other
in order, so of two compare-and-sets on one version the second fails.

Versions come from one counter for the whole tree, and so do the numbers of sequential names: it
only grows, hence neither is ever given twice, whatever was deleted in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from anabranch.errors import AnabranchError, BadVersion, InvalidInput, NotEmpty, NotFound
from anabranch.metadata.store import (
    NEW,
    ChildrenChanged,
    Created,
    Deleted,
    Modified,
    Notification,
    ancestors_of,
    child_path,
    is_within,
)


@dataclass(frozen=True, slots=True)
class Node:
    value: bytes
    version: int
    first_version: int  # the one it was created with
    created_ms: int
    modified_ms: int
    owner: int | None  # the session that an ephemeral record ends with


@dataclass(frozen=True, slots=True)
class Put:
    path: str
    value: bytes
    expected: int | None
    owner: int | None = None  # set: ephemeral, if this creates the record
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteRecursive:
    path: str


@dataclass(frozen=True, slots=True)
class EndSession:
    """Delete every ephemeral record of a session, in one step."""

    owner: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Changes nothing; it is done when everything before it is."""


Operation: TypeAlias = Put | Delete | DeleteRecursive | EndSession | Barrier


@dataclass(frozen=True, slots=True)
class Written:
    path: str
    node: Node


# An error is a result like any other here: one that fails says nothing about the rest of a draft.
Outcome: TypeAlias = Written | AnabranchError | None


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    node: Node | None  # None: deleted


class Tree:
    def __init__(self, nodes: Iterable[tuple[str, Node]] = (), last_version: int = 0) -> None:
        self.last_version = last_version
        self._nodes: dict[str, Node] = {}
        # How many records lie below a path, and the names directly below it. A name is listed
        # if it is a record or has records below. Paths with nothing below are in neither.
        self._below: dict[str, int] = {}
        self._names: dict[str, dict[str, None]] = {}
        self._owned: dict[int, dict[str, None]] = {}
        for path, node in nodes:
            self._set(path, node)

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, path: str) -> Node | None:
        return self._nodes.get(path)

    def has_children(self, path: str) -> bool:
        return path in self._below

    def count_below(self, path: str) -> int:
        return self._below.get(path, 0)

    def children(self, path: str) -> list[str]:
        return sorted(self._names.get(path, ()))

    def records_within(self, path: str) -> Iterator[str]:
        """The records at and below a path, children before their parents, else sorted."""
        for name in self.children(path):
            yield from self.records_within(child_path(path, name))
        if path in self._nodes:
            yield path

    def owned_by(self, owner: int) -> list[str]:
        return sorted(self._owned.get(owner, ()))

    def commit(self, draft: Draft) -> list[Notification]:
        """Take over what a draft of this very state decided; what listeners must hear of."""
        return self.take_over(draft.changes, draft.last_version)

    def take_over(self, changes: Iterable[Change], last_version: int) -> list[Notification]:
        """Changes that were decided elsewhere, in their order."""
        heard: list[Notification] = []
        for change in changes:
            heard.extend(self._set(change.path, change.node))
        self.last_version = last_version
        return heard

    def _set(self, path: str, node: Node | None) -> list[Notification]:
        before = self._nodes.get(path)
        if node is None:
            return self._remove(path)
        self._nodes[path] = node
        if before is not None:
            return [Modified(path)]
        if node.owner is not None:
            self._owned.setdefault(node.owner, {})[path] = None
        return [Created(path), *self._count_in(path)]

    def _remove(self, path: str) -> list[Notification]:
        node = self._nodes.pop(path)
        if node.owner is not None:
            owned = self._owned[node.owner]
            del owned[path]
            if not owned:
                del self._owned[node.owner]
        return [Deleted(path), *self._count_out(path)]

    def _count_in(self, path: str) -> Iterator[Notification]:
        """A record appeared: it, and parents that were nothing until now, join the listings."""
        joins = path not in self._below
        for parent in ancestors_of(path):
            if joins:
                self._names.setdefault(parent, {})[path.rsplit("/", 1)[1]] = None
                yield ChildrenChanged(parent)
            joins = joins and parent not in self._nodes and parent not in self._below
            self._below[parent] = self._below.get(parent, 0) + 1
            path = parent

    def _count_out(self, path: str) -> Iterator[Notification]:
        """A record went: it, and parents that are nothing without it, leave the listings."""
        leaves = path not in self._below
        for parent in ancestors_of(path):
            if leaves:
                names = self._names[parent]
                del names[path.rsplit("/", 1)[1]]
                if not names:
                    del self._names[parent]
                yield ChildrenChanged(parent)
            self._below[parent] -= 1
            if not self._below[parent]:
                del self._below[parent]
            leaves = leaves and parent not in self._nodes and parent not in self._below
            path = parent


class Records(Protocol):
    """What a draft asks about the state that it lies over."""

    @property
    def last_version(self) -> int: ...

    def get(self, path: str) -> Node | None: ...

    def count_below(self, path: str) -> int: ...

    def records_within(self, path: str) -> Iterable[str]: ...

    def owned_by(self, owner: int) -> list[str]: ...


class Draft:
    """Changes laid over a tree, not yet part of it."""

    def __init__(self, tree: Records, now_ms: int) -> None:
        self.changes: list[Change] = []
        self.last_version = tree.last_version
        self._tree = tree
        self._now_ms = now_ms
        self._nodes: dict[str, Node | None] = {}
        self._below: dict[str, int] = {}

    def final(self) -> dict[str, Node | None]:
        """The state of every path the draft touches, once it is committed."""
        return dict(self._nodes)

    def apply(self, operation: Operation) -> Outcome:
        """Do it, or leave the draft as it is and say why not."""
        try:
            match operation:
                case Put():
                    return self._put(operation)
                case Delete(path, expected):
                    self._delete(path, expected)
                case DeleteRecursive(path):
                    self._delete_all(self._records_within(path))
                case EndSession(owner):
                    self._delete_all(self._owned_by(owner))
                case Barrier():
                    pass
        except AnabranchError as error:
            return error
        return None

    def _get(self, path: str) -> Node | None:
        return self._nodes[path] if path in self._nodes else self._tree.get(path)

    def _has_children(self, path: str) -> bool:
        return self._tree.count_below(path) + self._below.get(path, 0) > 0

    def _put(self, put: Put) -> Written:
        path = self._sequential_name(put.path) if put.sequential else put.path
        before = self._get(path)
        _check_expected(path, before, put.expected)
        version = self.last_version + 1
        if before is not None:
            node = replace(before, value=put.value, version=version, modified_ms=self._now_ms)
        else:
            self._check_room_for(path, ephemeral=put.owner is not None)
            node = Node(put.value, version, version, self._now_ms, self._now_ms, put.owner)
        self.last_version = version
        self._set(path, node)
        return Written(path, node)

    def _sequential_name(self, path: str) -> str:
        # The number is the version this put will get. Somebody may have written such a name by
        # hand; numbers are plentiful, so step over it.
        number = self.last_version + 1
        while self._get(name := f"{path}-{number:020d}") is not None:
            number += 1
        self.last_version = number - 1
        return name

    def _check_room_for(self, path: str, *, ephemeral: bool) -> None:
        if ephemeral and self._has_children(path):
            raise InvalidInput(f"{path} has children, so it cannot be ephemeral")
        for parent in ancestors_of(path):
            above = self._get(parent)
            if above is not None and above.owner is not None:
                raise InvalidInput(f"{parent} is ephemeral, so it cannot have a child {path}")

    def _delete(self, path: str, expected: int | None) -> None:
        before = self._get(path)
        if self._has_children(path):
            raise NotEmpty(f"{path} has children")
        if before is None:
            raise NotFound(f"{path} does not exist")
        if expected is not None and expected != before.version:
            raise BadVersion(f"{path} is at version {before.version}, expected {expected}")
        self._set(path, None)

    def _delete_all(self, paths: list[str]) -> None:
        for path in paths:
            self._set(path, None)

    def _records_within(self, prefix: str) -> list[str]:
        """Children before parents, so that no listener sees a parent go before its child."""
        kept = [path for path in self._tree.records_within(prefix) if self._get(path) is not None]
        return sorted([*kept, *self._added_within(prefix)], key=_deepest_first)

    def _added_within(self, prefix: str) -> list[str]:
        return [
            path
            for path, node in self._nodes.items()
            if node is not None and self._tree.get(path) is None and is_within(path, prefix)
        ]

    def _owned_by(self, owner: int) -> list[str]:
        known = dict.fromkeys(self._tree.owned_by(owner)) | dict.fromkeys(self._nodes)
        owned = [(path, self._get(path)) for path in known]
        return sorted(path for path, node in owned if node is not None and node.owner == owner)

    def _set(self, path: str, node: Node | None) -> None:
        existed = self._get(path) is not None
        self._nodes[path] = node
        self.changes.append(Change(path, node))
        step = (node is not None) - existed
        if step:
            for parent in ancestors_of(path):
                self._below[parent] = self._below.get(parent, 0) + step


def _check_expected(path: str, before: Node | None, expected: int | None) -> None:
    if expected is None:
        return
    if before is None and expected != NEW:
        raise BadVersion(f"{path} does not exist, expected version {expected}")
    if before is not None and expected != before.version:
        wanted = "no record" if expected == NEW else f"version {expected}"
        raise BadVersion(f"{path} is at version {before.version}, expected {wanted}")


def _deepest_first(path: str) -> tuple[int, str]:
    return -path.count("/"), path
