"""Every input the fuzzer ever found interesting, or wrong, once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.protocol_readers import READERS, one_input

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: str(path.name))
def test_an_input_is_read_or_refused_and_nothing_else(path: Path) -> None:
    one_input(path.read_bytes())


def test_the_corpus_reaches_every_reader() -> None:
    first = {path.read_bytes()[0] % len(READERS) for path in CORPUS if path.stat().st_size}
    assert first == set(range(len(READERS)))


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.__name__))
def test_every_cut_and_every_flipped_bit_of_a_small_input_is_survived(reader: object) -> None:
    index = READERS.index(reader)  # type: ignore[arg-type]
    chosen = [path.read_bytes() for path in CORPUS]
    for data in [data for data in chosen if data and data[0] % len(READERS) == index][:8]:
        for position in range(1, min(len(data), 80)):
            one_input(data[:position])
            one_input(data[:position] + bytes([data[position] ^ 0x80]) + data[position + 1 :])
            one_input(data[:position] + b"\xff" + data[position + 1 :])
