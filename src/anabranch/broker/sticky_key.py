"""Which key an entry is routed by on a Key_Shared subscription, and its hash.

    ordering key, else partition key, else "<producer name>-<sequence id>", else "NONE_KEY"

A batch has the keys of its outer metadata. The hash is the masked murmur3 of the key, modulo 65536,
and never 0: upstream keeps 0 for "not computed", and a client's own idea of who owns a key must
agree with ours.
"""

from __future__ import annotations

import binascii

from anabranch.topics.key_range import KEY_SPACE_SIZE
from anabranch.topics.murmur3 import murmur3_32

NONE_KEY = b"NONE_KEY"


def sticky_key(
    *,
    ordering_key: bytes | None,
    partition_key: str | None,
    is_base64: bool,
    producer_name: str | None,
    sequence_id: int | None,
) -> bytes:
    """None means absent: an empty key is a key."""
    if ordering_key is not None:
        return ordering_key
    if partition_key is not None:
        return _decoded(partition_key) if is_base64 else partition_key.encode()
    if producer_name is not None and sequence_id is not None:
        return f"{producer_name}-{sequence_id}".encode()
    return NONE_KEY


def _decoded(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text)
    except ValueError:
        # Not what it says it is, but still the same for equal keys: order needs no more.
        return text.encode()


def sticky_hash(key: bytes) -> int:
    """From 1 to 65535. The mask takes a bit above the sixteen that are left, so it has no say."""
    return murmur3_32(key) % KEY_SPACE_SIZE or 1
