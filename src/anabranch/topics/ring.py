"""From a key's raw hash to the values that place it: ring value, bucket value, partition.

         raw hash, 32 bits
    ┌───────────────┬───────────────┐
    │ high 16 bits  │ low 16 bits   │
    └───────────────┴───────────────┘
      murmur3-high16: ring value = high half, bucket value = low half
      murmur3-low16:  ring value = low half, and one bucket, for no half is left to tell by

A layout names its routing and keeps it for life. Legacy topics know neither half: their partition
is the masked hash modulo the number of partitions, as the classic Murmur3_32Hash has it.
"""

from __future__ import annotations

from enum import Enum

from anabranch.topics.murmur3 import murmur3_32

_MASK_31 = 0x7FFFFFFF


class Routing(Enum):
    """The values are the names that records and the wire carry."""

    HIGH16 = "murmur3-high16"
    LOW16 = "murmur3-low16"

    @property
    def has_buckets(self) -> bool:
        return self is Routing.HIGH16


DEFAULT_ROUTING = Routing.HIGH16
# A name of its own, because reaching a member through its class costs more than the rest of
# `ring_value`, which every keyed message pays.
_HIGH16 = Routing.HIGH16


def hash_key(key: str) -> int:
    return murmur3_32(key.encode())


def ring_value(raw: int, routing: Routing = DEFAULT_ROUTING) -> int:
    return raw >> 16 if routing is _HIGH16 else raw & 0xFFFF


def bucket_value(raw: int) -> int:
    return raw & 0xFFFF


def masked(raw: int) -> int:
    """The hash as classic clients know it, without its top bit."""
    return raw & _MASK_31


def partition_of(raw: int, partitions: int) -> int:
    """Never negative, since the masked hash never is: Python's modulo equals Java's here."""
    return masked(raw) % partitions
