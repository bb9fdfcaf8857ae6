"""Which metadata store a URL means, and how it is opened.

    memory:local                    private to whoever opens it
    memory:NAME                     shared by name within one `Engines`, so within a process
    sqlite:/path/file.db            embedded; a relative path lies in the node's data directory
    sqlite:/path/file.db?shared=1   several processes of one machine
    zk:h1:2181,h2:2181/chroot       ZooKeeper; `h1:2181,h2:2181/chroot` means the same
    oxia://host:6648/namespace      Oxia; the namespace is `default` unless named

Parsing is pure and knows every form. Opening goes through a table from the kind of URL to an
opener, so an engine that is not built in only has to be entered there.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from anabranch.errors import InvalidInput, Refused
from anabranch.metadata.memory import MemoryTrees
from anabranch.metadata.sqlite import SqliteTree
from anabranch.metadata.sqlite_shared import SharedSqlite
from anabranch.metadata.store import MetadataStore, check_path
from anabranch.runtime.world import World

ZOOKEEPER_PORT: Final = 2181
OXIA_PORT: Final = 6648
_KNOWN_FORMS = (
    "memory:NAME, sqlite:/path/file.db, zk:host:2181/chroot or oxia://host:6648/namespace"
)
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
# An IPv6 address is in brackets, as in every URL.
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Server:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class MemoryUrl:
    name: str


@dataclass(frozen=True, slots=True)
class SqliteUrl:
    path: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class ZooKeeperUrl:
    servers: tuple[Server, ...]
    chroot: str = "/"


@dataclass(frozen=True, slots=True)
class OxiaUrl:
    server: Server
    namespace: str = "default"


StoreUrl: TypeAlias = MemoryUrl | SqliteUrl | ZooKeeperUrl | OxiaUrl
Opener: TypeAlias = Callable[[StoreUrl, World], Awaitable[MetadataStore]]


def parse_store_url(url: str) -> StoreUrl:
    """InvalidInput if it is malformed, Refused if it names an engine we decided against."""
    scheme, colon, rest = url.partition(":")
    if scheme in ("rocksdb", "etcd"):
        raise Refused(
            f"{url!r}: Anabranch has no {scheme} engine; "
            "use sqlite:/path/file.db on one machine, zk:host:2181 on several"
        )
    parse = _PARSERS.get(scheme) if colon else None
    if parse is not None:
        return parse(url, rest)
    return _parse_zookeeper(url, url)


def _parse_memory(url: str, name: str) -> MemoryUrl:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{url!r}: a name of letters, digits, '.', '_' and '-' must follow")
    return MemoryUrl(name)


def _parse_sqlite(url: str, rest: str) -> SqliteUrl:
    path, _, query = rest.partition("?")
    if path.startswith("//"):
        raise InvalidInput(f"{url!r}: write one slash, sqlite:/path/file.db")
    if path == ":memory:":
        raise InvalidInput(f"{url!r}: a store that keeps nothing is memory:local")
    if path.rpartition("/")[2] in ("", ".", ".."):
        raise InvalidInput(f"{url!r}: a file name is missing, as in sqlite:/path/file.db")
    if query not in ("", "shared=0", "shared=1"):
        raise InvalidInput(f"{url!r}: the only option is shared=1, not {query!r}")
    return SqliteUrl(path, shared=query == "shared=1")


def _parse_zookeeper(url: str, rest: str) -> ZooKeeperUrl:
    listed, slash, chroot = rest.partition("/")
    if rest is url and ":" not in listed:
        raise InvalidInput(f"{url!r} is no metadata store; say {_KNOWN_FORMS}")
    servers = tuple(_parse_server(url, server, ZOOKEEPER_PORT) for server in listed.split(","))
    path = f"{slash}{chroot}" or "/"
    try:
        check_path(path)
    except InvalidInput as error:
        raise InvalidInput(f"{url!r}: {error}") from None
    return ZooKeeperUrl(servers, path)


def _parse_oxia(url: str, rest: str) -> OxiaUrl:
    if not rest.startswith("//"):
        raise InvalidInput(f"{url!r}: say oxia://host:{OXIA_PORT}/namespace")
    server, _, namespace = rest[2:].partition("/")
    if "/" in namespace:
        raise InvalidInput(f"{url!r}: one namespace may follow the server, not {namespace!r}")
    return OxiaUrl(_parse_server(url, server, OXIA_PORT), namespace or "default")


def _parse_server(url: str, text: str, default_port: int) -> Server:
    match = _SERVER.fullmatch(text)
    port = int(match[2] or default_port) if match else 0
    if match is None or not 0 < port < 65536:
        raise InvalidInput(f"{url!r}: {text!r} is not host:port; say {_KNOWN_FORMS}")
    return Server(match[1].strip("[]"), port)


_PARSERS: Final[Mapping[str, Callable[[str, str], StoreUrl]]] = {
    "memory": _parse_memory,
    "sqlite": _parse_sqlite,
    "zk": _parse_zookeeper,
    "oxia": _parse_oxia,
}


class Engines:
    """Opens stores. A process makes one; engines beyond the built-in ones are handed in."""

    def __init__(self, extra: Mapping[type[StoreUrl], Opener] | None = None) -> None:
        self._memory = MemoryTrees()
        self._openers: dict[type[StoreUrl], Opener] = {
            MemoryUrl: self._open_memory,
            SqliteUrl: _open_sqlite,
            ZooKeeperUrl: _refuse_external,
            OxiaUrl: _refuse_external,
            **(extra or {}),
        }

    async def open(self, url: str, world: World) -> MetadataStore:
        """A session of its own; closing it closes whatever was opened for it alone."""
        parsed = parse_store_url(url)
        return await self._openers[type(parsed)](parsed, world)

    async def _open_memory(self, url: StoreUrl, world: World) -> MetadataStore:
        assert isinstance(url, MemoryUrl)
        return self._memory.named(url.name, world.clock).open_session()


async def open_store(url: str, world: World, engines: Engines | None = None) -> MetadataStore:
    """`memory:NAME` is shared among the calls that are given the same `engines`."""
    return await (engines or Engines()).open(url, world)


async def _open_sqlite(url: StoreUrl, world: World) -> MetadataStore:
    assert isinstance(url, SqliteUrl)
    if url.shared:
        return (await SharedSqlite.open(url.path, world)).session
    return (await SqliteTree.open(url.path, world)).open_session()


async def _refuse_external(url: StoreUrl, world: World) -> MetadataStore:
    kind = "ZooKeeper" if isinstance(url, ZooKeeperUrl) else "Oxia"
    raise Refused(
        f"the {kind} engine is not in this build; use sqlite:/path/file.db or memory:NAME"
    )
