from __future__ import annotations

import tracemalloc

import cramjam
import pytest

from anabranch.errors import RemoteProtocolError
from anabranch.protocol.compression import CompressionType, compress, decompress

CODECS = [CompressionType.LZ4, CompressionType.ZLIB, CompressionType.ZSTD, CompressionType.SNAPPY]
MB = 1 << 20


@pytest.mark.parametrize("codec", [CompressionType.NONE, *CODECS])
@pytest.mark.parametrize("data", [b"", b"x", b"abc" * 10_000, bytes(range(256)) * 40])
def test_what_goes_in_comes_out(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data), MB) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("lie", [-1, 1, 5000])
def test_a_lie_about_the_size_is_found_out(codec: int, lie: int) -> None:
    data = b"abc" * 10_000
    with pytest.raises(RemoteProtocolError, match=r"announced|damaged"):
        decompress(codec, compress(codec, data), len(data) + lie, MB)


@pytest.mark.parametrize("codec", CODECS)
def test_more_than_the_limit_is_refused_before_anything_is_done(codec: int) -> None:
    with pytest.raises(RemoteProtocolError, match=r"4294967295 bytes announced, the limit is"):
        decompress(codec, b"", 2**32 - 1, MB)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_fills_its_announced_size_and_no_more(codec: int) -> None:
    bomb = compress(codec, bytes(64 * MB))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="not 1000 bytes"):
            decompress(codec, bomb, 1000, MB)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"\xff", b"garbage" * 5, bytes(50)])
def test_garbage_is_the_peers_fault(codec: int, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decompress(codec, data, 123, MB)


def test_an_unknown_codec_is_the_peers_fault() -> None:
    with pytest.raises(RemoteProtocolError, match="unknown compression 9"):
        decompress(9, b"", 0, MB)


def test_blocks_are_raw_and_streams_are_standard() -> None:
    """What other clients write with their own libraries."""
    data = b"abc" * 100
    assert compress(CompressionType.LZ4, b"abc") == b"\x30abc"
    assert compress(CompressionType.SNAPPY, b"abc") == b"\x03\x08abc"
    assert compress(CompressionType.ZLIB, data)[:1] == b"\x78"
    assert compress(CompressionType.ZSTD, data)[:4] == b"\x28\xb5\x2f\xfd"


def test_a_block_that_begins_like_a_size_is_still_a_block() -> None:
    # Read as a size prefix the first four bytes would say 64, and the rest nothing.
    assert decompress(CompressionType.LZ4, bytes.fromhex("4000000000"), 4, MB) == bytes(4)


def test_a_zstd_window_beyond_reason_is_refused() -> None:
    block = ((10 << 3) | 1).to_bytes(3, "little") + b"0123456789"
    ok = b"\x28\xb5\x2f\xfd\x00" + bytes([(20 - 10) << 3]) + block
    assert decompress(CompressionType.ZSTD, ok, 10, MB) == b"0123456789"
    greedy = b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3]) + block
    with pytest.raises(RemoteProtocolError, match="too much memory"):
        decompress(CompressionType.ZSTD, greedy, 10, MB)


def test_cramjam_tells_how_much_it_wrote() -> None:
    """The one thing decompression leans on, for every codec: count, not fill."""
    out = bytearray(10)
    assert cramjam.zlib.decompress_into(cramjam.zlib.compress(b"abc"), out) == 3
