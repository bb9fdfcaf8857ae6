"""Topic lists, asked for and watched."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.broker.commands import topic_lists
from anabranch.broker.commands.topic_lists import is_cheap
from anabranch.protocol import wire_pb2
from anabranch.protocol.topic_list_hash import topic_list_hash
from tests.broker_world import BrokerWorld, play
from tests.managed_world import turns

SPACE = "public/default"
Error = wire_pb2.ServerError


def names(*locals_: str) -> list[str]:
    return [f"persistent://{SPACE}/{each}" for each in locals_]


def watch(pattern: str, watcher_id: int = 1, **more: str) -> wire_pb2.CommandWatchTopicList:
    return wire_pb2.CommandWatchTopicList(
        watcher_id=watcher_id,
        namespace=more.pop("namespace", SPACE),
        topics_pattern=pattern,
        request_id=0,
        **more,
    )


async def make(world: BrokerWorld, *locals_: str) -> None:
    for name in names(*locals_):
        await world.topic(name)


def test_a_list_is_filtered_where_that_is_cheap_and_sent_whole_where_not() -> None:
    async def scenario(world: BrokerWorld) -> None:
        await make(world, "aa", "ab", "b")
        client = await world.client()
        ask = wire_pb2.CommandGetTopicsOfNamespace(namespace=SPACE, request_id=0)
        ask.topics_pattern = f"persistent://{SPACE}/a.*"
        answer = await client.ask(ask)
        assert (list(answer.topics), answer.filtered) == (names("aa", "ab"), True)
        ask.topics_pattern = f"{SPACE}/(a*)*b"
        answer = await client.ask(ask)
        assert (list(answer.topics), answer.filtered) == (names("aa", "ab", "b"), False)

    play(scenario)


def test_an_unchanged_list_is_not_sent_again() -> None:
    async def scenario(world: BrokerWorld) -> None:
        await make(world, "a", "b")
        client = await world.client()
        ask = wire_pb2.CommandGetTopicsOfNamespace(namespace=SPACE, request_id=0)
        ask.topics_hash = topic_list_hash(names("a", "b"))
        answer = await client.ask(ask)
        assert (list(answer.topics), answer.changed) == ([], False)

    play(scenario)


def test_a_watch_tells_of_every_change_in_order() -> None:
    async def scenario(world: BrokerWorld) -> None:
        await make(world, "a1", "b1")
        client = await world.client()
        first = await client.ask(watch(f"{SPACE}/a.*"))
        assert list(first.topic) == names("a1")
        await make(world, "a2", "b2")
        update = await client.next_pushed()
        assert (list(update.new_topics), list(update.deleted_topics)) == (names("a2"), [])
        assert update.topics_hash == topic_list_hash(names("a1", "a2"))
        topic = await world.topic(names("a1")[0])
        await world.broker.catalogue.topics.delete(topic.name)
        update = await client.next_pushed()
        assert (list(update.new_topics), list(update.deleted_topics)) == ([], names("a1"))

    play(scenario)


def test_a_watch_that_was_closed_or_replaced_says_nothing_more() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        await client.ask(watch(f"{SPACE}/a.*"))
        await client.ask(watch(f"{SPACE}/b.*"))
        await client.ask(watch(f"{SPACE}/c.*", 2))
        await client.ask(wire_pb2.CommandWatchTopicListClose(watcher_id=2, request_id=0))
        await make(world, "a", "b", "c")
        update = await client.next_pushed()
        assert list(update.new_topics) == names("b")
        await turns()
        assert client.pushed.empty()

    play(scenario)


def test_a_refused_watch_leaves_nothing_behind() -> None:
    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        for command, error in (
            (watch("("), Error.InvalidTopicName),
            (watch("(a+)+"), Error.NotAllowedError),
            (watch("x" * 51), Error.NotAllowedError),
            (watch("a", namespace="no/where"), Error.MetadataError),
        ):
            assert (await client.ask(command)).error == error
        assert not next(iter(world.broker.sessions.values())).watches

    play(scenario)


def test_watches_of_a_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_lists, "MAX_WATCHES", 3)

    async def scenario(world: BrokerWorld) -> None:
        client = await world.client()
        answers = await asyncio.gather(*(client.ask(watch("a", each)) for each in range(5)))
        refused = [each for each in answers if isinstance(each, wire_pb2.CommandError)]
        assert [each.error for each in refused] == [Error.TooManyRequests] * 2
        again = await client.ask(watch("b", 0))
        assert isinstance(again, wire_pb2.CommandWatchTopicListSuccess)

    play(scenario)


@pytest.mark.parametrize("pattern", ["public/default/.*", "a(b|c)d+", "", "a.*b.*c.*", r"\*\*\*\*"])
def test_common_patterns_are_cheap(pattern: str) -> None:
    assert is_cheap(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|aa)+$", "(.*a){20}", "a?" * 20, ".*.*.*.*x", "(?=a)b", "x" * 51]
)
def test_patterns_that_can_take_for_ever_are_not(pattern: str) -> None:
    assert not is_cheap(pattern)
