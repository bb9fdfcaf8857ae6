"""The stored form of cursors: generated code is current, sizes are what the docs say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import InvalidInput
from anabranch.storage import cursor_pb2 as pb
from anabranch.storage.cursor import Cursor, CursorChange
from anabranch.storage.cursor_format import CursorRecord, encode_record, parse_record
from anabranch.storage.spans import Spans
from anabranch.topics.positions import Position

SOURCE = Path(__file__).parents[3] / "src"


def test_generated_code_is_what_the_definition_says(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(SOURCE)]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([*command, "anabranch/storage/cursor.proto"], check=True, cwd=SOURCE)
    made, kept = tmp_path / "anabranch/storage", SOURCE / "anabranch/storage"
    for name in ("cursor_pb2.py", "cursor_pb2.pyi"):
        assert (kept / name).read_text() == (made / name).read_text(), name


def test_everything_about_a_cursor_survives() -> None:
    change = CursorChange(
        Position(4, -1),
        {4: ((1, 1), (5, 9)), 6: ((0, 0),)},
        {Position(4, 3): 0b1011, Position(7, 0): 1 << 90},
        {"key": "value", "grüße": ""},
        replaces=True,
    )
    record = CursorRecord({"sub": change}, ("gone",), is_snapshot=True)
    assert parse_record(encode_record(record)) == record


def test_ten_thousand_holes_take_some_twenty_kilobytes() -> None:
    spans = Spans.of([(9, 40_000)])
    cursor = Cursor(Position(9, -1))
    cursor.acknowledge([Position(9, entry) for entry in range(1, 20_001, 2)], spans)
    assert cursor.run_count == 10_000
    assert len(encode_record(CursorRecord({"sub": cursor.state()}))) < 20_100


@pytest.mark.parametrize("runs", [[3], [3, 0]])
def test_runs_that_cannot_be_are_refused(runs: list[int]) -> None:
    message = pb.Record()
    cursor = message.cursors.add(name="s", mark_ledger=1, mark_entry=1)
    cursor.acks.add(ledger=1).runs.extend(runs)
    with pytest.raises(InvalidInput, match="ledger 1"):
        parse_record(message.SerializeToString())
