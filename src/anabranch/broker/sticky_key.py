"""The hash by which a Key_Shared subscription keeps the entries of a key together.

Which key an entry has is for `protocol.entries.sticky_key`; a batch has the keys of its outer
metadata. The hash is the masked murmur3 of the key, modulo 65536, and never 0: upstream keeps 0
for "not computed", and a client's own idea of who owns a key must agree with ours.
"""

from __future__ import annotations

from anabranch.topics.key_range import KEY_SPACE_SIZE
from anabranch.topics.murmur3 import murmur3_32

NONE_KEY = b"NONE_KEY"


def sticky_hash(key: bytes) -> int:
    """From 1 to 65535. The mask takes a bit above the sixteen that are left, so it has no say."""
    return murmur3_32(key) % KEY_SPACE_SIZE or 1
