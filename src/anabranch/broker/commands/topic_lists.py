"""The topics of a namespace, once or watched.

Names come with their partition suffix. A pattern is matched against the name without scheme and
partition. A regular expression can be made to take for ever, so one that is long, or repeats what
repeats itself, is left to the client to match, and not watched.
"""

from __future__ import annotations

import asyncio
import logging
import re

from google.protobuf.message import Message

from anabranch.broker.session import MAX_WATCHES, Handler, Session
from anabranch.errors import AnabranchError, InvalidName, NotAllowed, TooManyRequests
from anabranch.protocol import wire_pb2
from anabranch.protocol.topic_list_hash import topic_list_hash
from anabranch.topics.names import NamespaceName, TopicName, parse_namespace

log = logging.getLogger(__name__)

MAX_PATTERN = 50
# Each one multiplies the time a match can take by the length of a name.
MAX_REPEATS = 3
_REPEATED_GROUP = re.compile(r"\)[*+{?]")
_REPEAT = re.compile(r"(?<!\\)[*+{?]")
# Names matched before others get their turn.
MATCH_AT_ONCE = 200


async def get_topics(session: Session, command: wire_pb2.CommandGetTopicsOfNamespace) -> None:
    names = await _names(session, parse_namespace(command.namespace))
    answer = wire_pb2.CommandGetTopicsOfNamespaceResponse(request_id=command.request_id)
    pattern = command.topics_pattern
    if pattern and is_cheap(pattern):
        names = await matching(names, pattern)
        answer.filtered = True
    texts = [str(name) for name in names]
    if command.mode == wire_pb2.CommandGetTopicsOfNamespace.Mode.NON_PERSISTENT:
        texts = []
    answer.topics_hash = topic_list_hash(texts)
    answer.changed = answer.topics_hash != command.topics_hash
    if answer.changed:
        answer.topics.extend(texts)
    session.send(answer)


async def _names(session: Session, namespace: NamespaceName) -> list[TopicName]:
    catalogue = session.broker.catalogue
    await catalogue.namespaces.require(namespace)
    return await catalogue.topics.of_namespace(namespace)


def is_cheap(pattern: str) -> bool:
    """Whether matching it takes a short time whatever the names are."""
    return (
        len(pattern) <= MAX_PATTERN
        and len(_REPEAT.findall(pattern)) <= MAX_REPEATS
        and not _REPEATED_GROUP.search(pattern)
        and "(?" not in pattern
    )


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern.split("://", 1)[-1])
    except re.error as error:
        raise InvalidName(f"pattern {pattern!r}: {error}") from None


async def matching(names: list[TopicName], pattern: str) -> list[TopicName]:
    compiled = _compile(pattern)
    found: list[TopicName] = []
    for start in range(0, len(names), MATCH_AT_ONCE):
        found += [
            name
            for name in names[start : start + MATCH_AT_ONCE]
            if compiled.fullmatch(f"{name.namespace}/{name.base.local}")
        ]
        await asyncio.sleep(0)
    return found


async def watch_topic_list(session: Session, command: wire_pb2.CommandWatchTopicList) -> None:
    if not is_cheap(command.topics_pattern):
        raise NotAllowed(
            f"pattern {command.topics_pattern[:MAX_PATTERN]!r} is not watched: at most "
            f"{MAX_PATTERN} characters and {MAX_REPEATS} repetitions, and none of a group"
        )
    _compile(command.topics_pattern)
    namespace = parse_namespace(command.namespace)
    former = session.watches.pop(command.watcher_id, None)
    if former is not None:
        former()
    if len(session.watches) >= MAX_WATCHES:
        raise TooManyRequests(f"{MAX_WATCHES} watches are open on this connection")
    watch = ListWatch(session, command.watcher_id, namespace, command.topics_pattern)
    session.watches[command.watcher_id] = watch.close
    try:
        texts = await watch.names()
    except BaseException:
        watch.close()
        if session.watches.get(command.watcher_id) == watch.close:
            del session.watches[command.watcher_id]
        raise
    answer = wire_pb2.CommandWatchTopicListSuccess(
        request_id=command.request_id,
        watcher_id=command.watcher_id,
        topics_hash=topic_list_hash(texts),
    )
    if answer.topics_hash != command.topics_hash:
        answer.topic.extend(texts)
    session.send(answer)
    watch.begin(texts)


class ListWatch:
    """Pushes what changed of a namespace's list. Changes during a listing bring another one."""

    def __init__(
        self, session: Session, watcher_id: int, namespace: NamespaceName, pattern: str
    ) -> None:
        self._session = session
        self._watcher_id = watcher_id
        self._namespace = namespace
        self._pattern = pattern
        self._known: set[str] | None = None  # None until the client has its first list
        self._is_stale = False
        self._listing: asyncio.Task[None] | None = None
        # Before the first listing: what changes from here on is seen by one or the other.
        self._watch = session.broker.catalogue.topics.watch(namespace, self._changed)

    async def names(self) -> list[str]:
        names = await _names(self._session, self._namespace)
        return [str(name) for name in await matching(names, self._pattern)]

    def begin(self, texts: list[str]) -> None:
        self._known = set(texts)
        if self._is_stale:
            self._changed()

    def _changed(self) -> None:
        self._is_stale = True
        if self._known is not None and self._listing is None:
            self._listing = asyncio.create_task(self._update())

    async def _update(self) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                self._push(set(await self.names()))
        except AnabranchError as error:
            log.warning("topic list watch ended namespace=%s error=%r", self._namespace, error)
        finally:
            self._listing = None

    def _push(self, now: set[str]) -> None:
        assert self._known is not None
        if now == self._known:
            return
        self._session.send(
            wire_pb2.CommandWatchTopicUpdate(
                watcher_id=self._watcher_id,
                new_topics=sorted(now - self._known),
                deleted_topics=sorted(self._known - now),
                topics_hash=topic_list_hash(sorted(now)),
            )
        )
        self._known = now

    def close(self) -> None:
        self._watch.close()
        if self._listing is not None:
            self._listing.cancel()


def close_watch(session: Session, command: wire_pb2.CommandWatchTopicListClose) -> None:
    close = session.watches.pop(command.watcher_id, None)
    if close is not None:
        close()
    session.succeed(command.request_id)


HANDLERS: dict[type[Message], Handler] = {
    wire_pb2.CommandGetTopicsOfNamespace: get_topics,
    wire_pb2.CommandWatchTopicList: watch_topic_list,
    wire_pb2.CommandWatchTopicListClose: close_watch,
}
