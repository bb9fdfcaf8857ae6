"""One short hash of a set of topic names, by which client and broker learn that nothing changed.

Sort the names by UTF-16 code units, as Java does, join them with single commas, take the CRC32C of
the UTF-8 bytes, and print its four bytes in little-endian order. No names at all: `00000000`.
"""

from __future__ import annotations

from collections.abc import Iterable

from crc32c import crc32c


def topic_list_hash(names: Iterable[str]) -> str:
    joined = ",".join(sorted(names, key=_utf16_units))
    return crc32c(joined.encode("utf-8", "replace")).to_bytes(4, "little").hex()


def _utf16_units(name: str) -> bytes:
    # Code points order differently: U+FF5E comes before U+10000, whose first unit is 0xD800.
    return name.encode("utf-16-be", "surrogatepass")
