"""What is in a metadata database, and how a tree is loaded from it and changes are saved to it.

In WAL mode with synchronous=FULL:

    application_id          0x416E6162, "Anab": whose file it is
    user_version            the schema, 1; a newer one is refused
    settings(key, value)    last_version: versions and sequence numbers given so far
                            opened: how often the file was opened; only its change matters
    records                 one row for each record, by path
        value
        version             the current one; first_version is the one it was created with
        created, modified   milliseconds since 1970
        owner               the session of an ephemeral record, else NULL
        checksum            CRC-32 of path, value, and the five numbers above as decimal text
                            with commas between (None for NULL): SQLite keeps no checksums

These functions run inside a transaction, off the event loop; they see only what they are given.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from anabranch.errors import Corrupt, Refused
from anabranch.metadata.tree import Node, Tree
from anabranch.runtime.world import SqlConnection, SqlValue

APPLICATION_ID: Final = 0x416E6162
SCHEMA: Final = 1
_PAGE_ROWS: Final = 10_000

_CREATE = (
    "CREATE TABLE settings (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE records (
        path TEXT PRIMARY KEY,
        value BLOB NOT NULL,
        version INTEGER NOT NULL,
        first_version INTEGER NOT NULL,
        created INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        owner INTEGER,
        checksum INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "INSERT INTO settings VALUES ('last_version', 0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA}",
)
_COLUMNS = """SELECT path, value, version, first_version, created, modified, owner, checksum
    FROM records"""
# After a kill the log may end in commits that are in the page cache only. SQLite takes them for
# good, but a power cut could still take them back. A commit syncs all of the log before it, so
# opening makes one; an update that changes no value would write nothing, and sync nothing.
_NOTE_OPENED = """INSERT INTO settings VALUES ('opened', 1)
    ON CONFLICT (key) DO UPDATE SET value = value + 1"""
_REPLACE = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


def load(path: str, connection: SqlConnection) -> Tree:
    """The tree as the last process left it, without the ephemerals that died with it."""
    check_file(path, connection)
    # Every row is checked first: a damaged owner must not pass for a dead session.
    records = [record for record in all_records(path, connection) if record[1].owner is None]
    connection.execute("DELETE FROM records WHERE owner IS NOT NULL")
    return Tree(records, read_last_version(connection))


def check_file(path: str, connection: SqlConnection) -> None:
    """Refuse a file that is not for us, is too new or is damaged; fill one that is empty."""
    _check_or_create(path, connection)
    _check_pages(path, connection)
    last_version = read_last_version(connection)
    newest = read_number(connection, "SELECT coalesce(max(version), 0) FROM records")
    if newest > last_version:
        raise Corrupt(f"{path}: version {newest} was given, but the counter says {last_version}")
    connection.execute(_NOTE_OPENED)


def read_last_version(connection: SqlConnection) -> int:
    return read_number(connection, "SELECT value FROM settings WHERE key = 'last_version'")


def read_record(database: str, path: str, connection: SqlConnection) -> Node | None:
    rows = connection.execute(f"{_COLUMNS} WHERE path = ?", (path,))
    return _checked_record(database, rows[0])[1] if rows else None


def save(changes: Mapping[str, Node | None], last_version: int, connection: SqlConnection) -> None:
    """The state that every changed path shall have; None deletes it."""
    for path, node in changes.items():
        if node is None:
            connection.execute("DELETE FROM records WHERE path = ?", (path,))
        else:
            numbers = _numbers(node)
            checksum = _checksum(path, node.value, numbers)
            connection.execute(_REPLACE, (path, node.value, *numbers, checksum))
    connection.execute("UPDATE settings SET value = ? WHERE key = 'last_version'", (last_version,))


def _check_or_create(path: str, connection: SqlConnection) -> None:
    application = read_number(connection, "PRAGMA application_id")
    schema = read_number(connection, "PRAGMA user_version")
    tables = read_number(connection, "SELECT count(*) FROM sqlite_master")
    if (application, schema, tables) == (0, 0, 0):
        for statement in _CREATE:
            connection.execute(statement)
    elif application != APPLICATION_ID:
        raise Refused(f"{path} is a database of another program; name another file")
    elif schema != SCHEMA:
        raise Refused(
            f"{path} has metadata schema {schema}, this build knows {SCHEMA}; "
            "use the build that wrote it, or a newer one"
        )


def _check_pages(path: str, connection: SqlConnection) -> None:
    rows = connection.execute("PRAGMA quick_check(1)")
    if rows != [("ok",)]:
        raise Corrupt(f"{path} is damaged: {rows!r}; restore it from a backup")


def all_records(database: str, connection: SqlConnection) -> Iterator[tuple[str, Node]]:
    last: SqlValue = ""
    page = f"{_COLUMNS} WHERE path > ? ORDER BY path LIMIT ?"
    while rows := connection.execute(page, (last, _PAGE_ROWS)):
        for row in rows:
            yield _checked_record(database, row)
        last = rows[-1][0]


def _checked_record(database: str, row: tuple[SqlValue, ...]) -> tuple[str, Node]:
    path, value, *numbers, checksum = row
    # A damaged row may hold any type in any column.
    if isinstance(path, str) and isinstance(value, bytes):
        version, first_version, created_ms, modified_ms, owner = numbers
        if (
            _checksum(path, value, numbers) == checksum
            and isinstance(version, int)
            and isinstance(first_version, int)
            and isinstance(created_ms, int)
            and isinstance(modified_ms, int)
            and isinstance(owner, int | None)
        ):
            return path, Node(value, version, first_version, created_ms, modified_ms, owner)
    raise Corrupt(f"{database}: record {path!r} fails its checksum; restore it from a backup")


def _numbers(node: Node) -> tuple[SqlValue, ...]:
    times = (node.created_ms, node.modified_ms)
    return (node.version, node.first_version, *times, node.owner)


def _checksum(path: str, value: bytes, numbers: Sequence[SqlValue]) -> int:
    text = ",".join(str(number) for number in numbers)
    return zlib.crc32(text.encode(), zlib.crc32(value, zlib.crc32(path.encode())))


def read_number(connection: SqlConnection, sql: str, parameters: Sequence[SqlValue] = ()) -> int:
    rows = connection.execute(sql, parameters)
    number = rows[0][0] if rows else None
    if not isinstance(number, int):
        raise Corrupt(f"the metadata database answers {sql!r} with {rows!r}, not with a number")
    return number
