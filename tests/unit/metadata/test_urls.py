from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from anabranch.errors import InvalidInput, Refused
from anabranch.metadata.memory import MemoryTree
from anabranch.metadata.store import NEW, MetadataStore
from anabranch.metadata.urls import (
    Engines,
    MemoryUrl,
    OxiaUrl,
    Server,
    SqliteUrl,
    StoreUrl,
    ZooKeeperUrl,
    open_store,
    parse_store_url,
)
from anabranch.runtime.system import system_world
from anabranch.runtime.world import World

H1, H2 = Server("h1", 2181), Server("h2", 2182)


@pytest.mark.parametrize(
    ("url", "meaning"),
    [
        ("memory:local", MemoryUrl("local")),
        ("memory:a-b_c.1", MemoryUrl("a-b_c.1")),
        ("sqlite:/var/lib/a.db", SqliteUrl("/var/lib/a.db")),
        ("sqlite:meta/a.db", SqliteUrl("meta/a.db")),
        ("sqlite:a.db?shared=1", SqliteUrl("a.db", shared=True)),
        ("sqlite:a.db?shared=0", SqliteUrl("a.db")),
        ("zk:h1:2181,h2:2182/chroot/x", ZooKeeperUrl((H1, H2), "/chroot/x")),
        ("zk:h1", ZooKeeperUrl((H1,))),
        ("h1:2181,h2:2182", ZooKeeperUrl((H1, H2))),
        ("h1:2181/chroot", ZooKeeperUrl((H1,), "/chroot")),
        ("zk:[::1]:2181/", ZooKeeperUrl((Server("::1", 2181),))),
        ("[::1]:2181", ZooKeeperUrl((Server("::1", 2181),))),
        ("oxia://h:6648/ns", OxiaUrl(Server("h", 6648), "ns")),
        ("oxia://h", OxiaUrl(Server("h", 6648))),
        ("oxia://h:7/", OxiaUrl(Server("h", 7))),
    ],
)
def test_a_url_means(url: str, meaning: StoreUrl) -> None:
    assert parse_store_url(url) == meaning


@pytest.mark.parametrize(
    "url",
    [
        "",
        "memory",
        "memory:",
        "memory:a/b",
        "sqlite:",
        "sqlite:/",
        "sqlite:/a/..",
        "sqlite:///a.db",
        "sqlite::memory:",
        "sqlite:a.db?share=1",
        "sqlite:a.db?shared=yes",
        "zk:",
        "zk:h1:port",
        "zk:h1:0",
        "zk:h1:65536",
        "zk:h1:2181,",
        "zk:h1:2181//x",
        "zk:h1:2181/x/",
        "oxia:h",
        "oxia://",
        "oxia://h:6648/a/b",
        "localhost",
        "http://localhost:80",
        "h1:2181 ,h2:2181",
        "redis:x",
    ],
)
def test_a_malformed_url_is_refused_with_its_text(url: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_store_url(url)
    assert repr(url) in str(refusal.value)


@pytest.mark.parametrize("url", ["rocksdb:/data", "etcd:http://h:2379"])
def test_engines_of_pulsar_that_we_lack_name_those_we_have(url: str) -> None:
    with pytest.raises(Refused, match=r"sqlite:.*zk:"):
        parse_store_url(url)


@pytest.mark.parametrize("url", ["zk:h1:2181", "h1:2181", "oxia://h"])
def test_what_is_not_built_is_refused_when_opened(tmp_path: Path, url: str) -> None:
    with pytest.raises(Refused, match="not in this build"):
        asyncio.run(open_store(url, system_world(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_memory_is_shared_by_name_and_local_is_private(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, engines = system_world(tmp_path), Engines()
        one = await engines.open("memory:shared", world)
        two = await engines.open("memory:shared", world)
        local = await engines.open("memory:local", world)
        await one.put("/a", b"", NEW, ephemeral=True)
        assert await two.exists("/a")
        assert not await local.exists("/a")
        assert not await (await engines.open("memory:local", world)).exists("/a")
        assert not await (await open_store("memory:shared", world)).exists("/a")
        await one.close()
        assert not await two.exists("/a")

    asyncio.run(scenario())


def test_sqlite_is_opened_and_closed_with_its_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = system_world(tmp_path)
        for url in ("sqlite:meta/a.db", f"sqlite:{tmp_path}/meta/a.db"):
            store = await open_store(url, world)
            await store.put(f"/{len(await store.children('/'))}", b"", NEW)
            await store.close()
        store = await open_store("sqlite:meta/a.db", world)
        assert await store.children("/") == ["0", "1"]
        await store.close()

    asyncio.run(scenario())


def test_an_external_engine_only_plugs_in(tmp_path: Path) -> None:
    async def open_zookeeper(url: StoreUrl, world: World) -> MetadataStore:
        assert url == ZooKeeperUrl((H1,), "/x")
        return MemoryTree(world.clock).open_session()

    async def scenario() -> None:
        engines = Engines({ZooKeeperUrl: open_zookeeper})
        store = await engines.open("h1:2181/x", system_world(tmp_path))
        await store.put("/a", b"", NEW)

    asyncio.run(scenario())
