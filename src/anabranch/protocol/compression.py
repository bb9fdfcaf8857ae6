"""Compression of payloads, whole and once, in the five forms the protocol knows.

LZ4 and SNAPPY are raw blocks without any framing, ZLIB is a zlib stream, ZSTD a standard frame.
None of them can be trusted to say how much it will become, so decompression writes into a buffer of
exactly the size that the metadata announced, which was compared with the limit first: a bomb runs
into the end of that buffer, and a lie about the size is found out either way. (zstd reserves its
window besides, 128 MB of address space at most; it touches no more of it than it writes.)
"""

from __future__ import annotations

from collections.abc import Callable

import cramjam

from anabranch.errors import RemoteProtocolError
from anabranch.protocol import wire_pb2
from anabranch.runtime.world import Buffer

CompressionType = wire_pb2.CompressionType


def _compress_lz4(data: Buffer) -> cramjam.Buffer:
    return cramjam.lz4.compress_block(data, store_size=False)


def _decompress_lz4(data: Buffer, out: bytearray) -> int:
    # Without output_len a block that happens to begin like a size would be taken for one.
    return cramjam.lz4.decompress_block_into(data, out, output_len=len(out))


_COMPRESS: dict[int, Callable[[Buffer], cramjam.Buffer]] = {
    CompressionType.LZ4: _compress_lz4,
    CompressionType.ZLIB: cramjam.zlib.compress,
    CompressionType.ZSTD: cramjam.zstd.compress,
    CompressionType.SNAPPY: cramjam.snappy.compress_raw,
}
_DECOMPRESS: dict[int, Callable[[Buffer, bytearray], int]] = {
    CompressionType.LZ4: _decompress_lz4,
    CompressionType.ZLIB: cramjam.zlib.decompress_into,
    CompressionType.ZSTD: cramjam.zstd.decompress_into,
    CompressionType.SNAPPY: cramjam.snappy.decompress_raw_into,
}


def compress(compression: int, data: Buffer) -> bytes:
    if compression == CompressionType.NONE:
        return bytes(data)
    return bytes(_COMPRESS[compression](data))


def decompress(compression: int, data: Buffer, uncompressed_size: int, max_size: int) -> bytes:
    """The payload, if it has exactly `uncompressed_size` bytes and that is at most `max_size`."""
    if compression == CompressionType.NONE:
        return bytes(data)
    if compression not in _DECOMPRESS:
        raise RemoteProtocolError(f"unknown compression {compression}")
    name = CompressionType.Name(compression)
    if uncompressed_size > max_size:
        raise RemoteProtocolError(
            f"{name} payload of {uncompressed_size} bytes announced, the limit is {max_size}"
        )
    out = bytearray(uncompressed_size)
    try:
        count = _DECOMPRESS[compression](data, out)
    except cramjam.DecompressionError as error:
        raise RemoteProtocolError(
            f"{name} payload is not {uncompressed_size} bytes, or is damaged: {error}"
        ) from error
    if count != uncompressed_size:
        raise RemoteProtocolError(
            f"{name} payload has {count} bytes, {uncompressed_size} were announced"
        )
    return bytes(out)
