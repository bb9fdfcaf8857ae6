"""The published and computed hash vectors, and a second murmur3 that shares nothing with ours."""

from __future__ import annotations

from typing import NamedTuple


class HashVector(NamedTuple):
    key: str
    raw: int
    ring: int
    bucket: int
    masked: int
    mod_4: int
    mod_3: int


VECTORS = [
    HashVector("", 0x00000000, 0x0000, 0x0000, 0, 0, 0),
    HashVector("a", 0x3C2569B2, 0x3C25, 0x69B2, 1009084850, 2, 2),
    HashVector("k1", 0xFDC6602A, 0xFDC6, 0x602A, 2110152746, 2, 2),
    HashVector("key1", 0x9B970125, 0x9B97, 0x0125, 462881061, 1, 0),
    HashVector("key2", 0x737139B4, 0x7371, 0x39B4, 1936800180, 0, 0),
    HashVector("orders-42", 0xC41FC022, 0xC41F, 0xC022, 1142931490, 2, 1),
    HashVector("é", 0x10110787, 0x1011, 0x0787, 269551495, 3, 1),
    HashVector("0123456789abcdef", 0x36C7E0DF, 0x36C7, 0xE0DF, 919068895, 3, 1),
]


class ClientVector(NamedTuple):
    key: str
    raw: int
    ring: int
    bucket: int
    segment_of_4: int
    mod_4: int


CLIENT_VECTORS = [
    ClientVector("", 0x00000000, 0x0000, 0x0000, 0, 0),
    ClientVector("a", 0x3C2569B2, 0x3C25, 0x69B2, 0, 2),
    ClientVector("k-0", 0x5A771F53, 0x5A77, 0x1F53, 1, 3),
    ClientVector("k-1", 0xBD7718CB, 0xBD77, 0x18CB, 2, 3),
    ClientVector("order-42", 0x4B11A18E, 0x4B11, 0xA18E, 1, 2),
    ClientVector("customer-99", 0xD8FFEE14, 0xD8FF, 0xEE14, 3, 0),
    ClientVector("alpha", 0xA9C0133D, 0xA9C0, 0x133D, 2, 1),
    ClientVector("bravo", 0xF96964C4, 0xF969, 0x64C4, 3, 0),
    ClientVector("délta", 0xCA580775, 0xCA58, 0x0775, 3, 1),
]


def slow_murmur3(key: bytes) -> int:
    """Unbounded integers and a modulo, straight from the description of the algorithm."""
    whole = 2**32

    def rotated(word: int, bits: int) -> int:
        digits = format(word, "032b")
        return int(digits[bits:] + digits[:bits], 2)

    def scrambled(word: int) -> int:
        return rotated(word * 0xCC9E2D51 % whole, 15) * 0x1B873593 % whole

    state = 0
    for at in range(0, len(key), 4):
        block = key[at : at + 4]
        state ^= scrambled(int.from_bytes(block, "little"))
        if len(block) == 4:
            state = (rotated(state, 13) * 5 + 0xE6546B64) % whole
    state ^= len(key)
    state = (state ^ state // 2**16) * 0x85EBCA6B % whole
    state = (state ^ state // 2**13) * 0xC2B2AE35 % whole
    return state ^ state // 2**16
