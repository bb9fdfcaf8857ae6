"""Names of topics, segments and namespaces, parsed once where they enter and typed from there on.

    x                              persistent://public/default/x
    t/n/x                          persistent://t/n/x
    persistent://t/n/x             a regular topic; non-persistent:// likewise
    …/x-partition-7                its partition 7, if the number is written without leading zeros
    topic://t/n/x                  a scalable topic; x may contain slashes
    segment://t/n/x/0000-7fff-3    a segment of it: first and last ring value, and the segment's id

The descriptor is what follows the last slash, four lower-case hex digits for each end of the range.
Whatever the form, a scalable topic has one identity, its `topic://` name, and one place in the
metadata store, under its encoded local name. Nothing is repaired silently: a name that is almost
right is refused, and told what is wrong with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from urllib.parse import quote_plus, unquote_plus

from anabranch.errors import InvalidInput, InvalidName
from anabranch.topics.key_range import KeyRange
from anabranch.topics.segment import Segment, SegmentId

DEFAULT_TENANT = "public"
DEFAULT_NAMESPACE = "default"
# Names become store paths, log lines and wire fields; no real one comes near this.
MAX_NAME_BYTES = 1024

_SCHEME = "://"
_PLAIN_PART = re.compile(r"[-=:.\w]+", re.ASCII)
_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,8})", re.ASCII | re.DOTALL)
_DESCRIPTOR = re.compile(r"([0-9a-f]{4})-([0-9a-f]{4})-(0|[1-9][0-9]{0,17})", re.ASCII)


class Domain(Enum):
    PERSISTENT = "persistent"
    NON_PERSISTENT = "non-persistent"
    TOPIC = "topic"
    SEGMENT = "segment"


@dataclass(frozen=True, slots=True, order=True)
class NamespaceName:
    tenant: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.namespace}"


@dataclass(frozen=True, slots=True, order=True)
class SegmentDescriptor:
    keys: KeyRange
    id: SegmentId

    def __str__(self) -> str:
        return f"{self.keys}-{self.id}"


@dataclass(frozen=True, slots=True)
class TopicName:
    """Made by `parse_topic_name` and by the methods below, so that every one is valid."""

    domain: Domain
    namespace: NamespaceName
    # Of a segment: the local name of its scalable topic.
    local: str
    descriptor: SegmentDescriptor | None = None

    def __post_init__(self) -> None:
        assert (self.domain is Domain.SEGMENT) == (self.descriptor is not None), self.domain

    @property
    def tenant(self) -> str:
        return self.namespace.tenant

    @property
    def partition(self) -> int | None:
        """Which partition this names; None for anything that is not one."""
        match = None if self.domain is Domain.SEGMENT else _PARTITION.fullmatch(self.local)
        return int(match[2]) if match else None

    @property
    def base(self) -> TopicName:
        """The topic that this is a partition of; any other name is its own base."""
        match = None if self.domain is Domain.SEGMENT else _PARTITION.fullmatch(self.local)
        return replace(self, local=match[1]) if match else self

    @property
    def scalable(self) -> TopicName:
        """The identity of the scalable topic that this name belongs to, or would migrate to."""
        source = self.base if self.domain is Domain.PERSISTENT else self
        if source.domain is Domain.NON_PERSISTENT:
            raise InvalidName(f"{self} is not persistent and so cannot be a scalable topic")
        return TopicName(Domain.TOPIC, source.namespace, source.local)

    @property
    def schema_id(self) -> str:
        """Segments and partitions share the schema of their topic."""
        return f"{self.namespace}/{self.base.local}"

    @property
    def encoded_local(self) -> str:
        return encode_local_name(self.local)

    def of_partition(self, index: int) -> TopicName:
        assert index >= 0, index
        assert self.partition is None, self
        assert self.domain is not Domain.SEGMENT, self
        return replace(self, local=f"{self.local}-partition-{index}")

    def of_segment(self, keys: KeyRange, segment_id: int) -> TopicName:
        """The topic in which a segment's messages are kept."""
        descriptor = SegmentDescriptor(keys, SegmentId(segment_id))
        return replace(self.scalable, domain=Domain.SEGMENT, descriptor=descriptor)

    def __str__(self) -> str:
        text = f"{self.domain.value}{_SCHEME}{self.namespace}/{self.local}"
        return text if self.descriptor is None else f"{text}/{self.descriptor}"


def parse_topic_name(text: str) -> TopicName:
    _check_text(text, "topic name")
    domain, tenant, namespace, local = _split(text)
    space = NamespaceName(_plain(tenant, "tenant", text), _plain(namespace, "namespace", text))
    descriptor = None
    if domain is Domain.SEGMENT:
        local, slash, last = local.rpartition("/")
        if not slash:
            raise InvalidName(f"segment name {text!r} needs a topic and a descriptor after it")
        descriptor = parse_descriptor(last)
    _check_local(domain, local, text)
    return TopicName(domain, space, local, descriptor)


def segment_topic(topic: TopicName, segment: Segment) -> str:
    """The topic to attach to for a segment: a legacy one stays under its regular name, always."""
    return segment.legacy_topic or str(topic.of_segment(segment.keys, segment.id))


def parse_namespace(text: str) -> NamespaceName:
    _check_text(text, "namespace")
    parts = text.split("/")
    if len(parts) != 2:
        raise InvalidName(f"namespace {text!r} must be tenant/namespace")
    return NamespaceName(_plain(parts[0], "tenant", text), _plain(parts[1], "namespace", text))


def parse_descriptor(text: str) -> SegmentDescriptor:
    match = _DESCRIPTOR.fullmatch(text)
    if match is None:
        raise InvalidName(
            f"segment descriptor {text!r} must look like 0000-7fff-3: "
            f"first and last ring value in lower-case hex, then the segment id"
        )
    try:
        keys = KeyRange(int(match[1], 16), int(match[2], 16))
    except InvalidInput as error:
        raise InvalidName(f"segment descriptor {text!r}: {error}") from error
    return SegmentDescriptor(keys, SegmentId(int(match[3])))


def encode_local_name(local: str) -> str:
    """As one component of a store path, in the form encoding that Pulsar's store paths have."""
    return quote_plus(local, safe="*").replace("~", "%7E")


def decode_local_name(encoded: str) -> str:
    return unquote_plus(encoded)


def _split(text: str) -> tuple[Domain, str, str, str]:
    scheme, found, rest = text.partition(_SCHEME)
    if not found:
        return _split_short(text)
    try:
        domain = Domain(scheme)
    except ValueError:
        known = ", ".join(each.value for each in Domain)
        raise InvalidName(f"topic name {text!r} has domain {scheme!r}; it can be {known}") from None
    parts = rest.split("/", 2)
    if len(parts) != 3:
        raise InvalidName(f"topic name {text!r} must be {scheme}://tenant/namespace/topic")
    return domain, parts[0], parts[1], parts[2]


def _split_short(text: str) -> tuple[Domain, str, str, str]:
    parts = text.split("/")
    if len(parts) == 1:
        return Domain.PERSISTENT, DEFAULT_TENANT, DEFAULT_NAMESPACE, text
    if len(parts) != 3:
        raise InvalidName(
            f"topic name {text!r} has {len(parts)} parts; "
            f"a short one is topic or tenant/namespace/topic"
        )
    return Domain.PERSISTENT, parts[0], parts[1], parts[2]


def _check_text(text: str, what: str) -> None:
    if not text.strip():
        raise InvalidName(f"{what} {text!r} is blank")
    if text != text.strip():
        raise InvalidName(f"{what} {text!r} begins or ends with whitespace")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidName(f"{what} {text!r} is not valid Unicode: {error.reason}") from None
    if size > MAX_NAME_BYTES:
        raise InvalidName(f"{what} {text[:40]!r}… has {size} bytes; at most {MAX_NAME_BYTES} go")
    if any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in text):
        raise InvalidName(f"{what} {text!r} contains control characters")


def _plain(part: str, what: str, text: str) -> str:
    # A dot or two alone would walk about in a store path.
    if _PLAIN_PART.fullmatch(part) is None or part in (".", ".."):
        raise InvalidName(
            f"{what} {part!r} in {text!r} must be letters, digits and any of - = : . _"
        )
    return part


def _check_local(domain: Domain, local: str, text: str) -> None:
    parts = local.split("/")
    if len(parts) > 1 and domain in (Domain.PERSISTENT, Domain.NON_PERSISTENT):
        raise InvalidName(
            f"topic name {text!r} has {len(parts) + 2} parts; a {domain.value} one has three "
            f"(tenant/cluster/namespace/topic is no longer a form)"
        )
    for part in parts:
        if not part or part != part.strip() or part in (".", ".."):
            raise InvalidName(
                f"topic name {text!r} has the part {part!r}, "
                f"which is empty, a dot or two, or has whitespace around it"
            )
