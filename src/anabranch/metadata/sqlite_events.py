"""What a shared metadata database holds besides the records, and how processes meet in it.

    sessions(id, token)    one row for each process that uses the file; `id` owns its ephemerals.
                           It lives as long as somebody holds the lock `<file>.session-<token>`
    events(seq, path)      the last changes, so that every process can follow the others'

A process works in *exchanges*: one transaction that decides and saves what it wants to write, and
brings back what changed since the last one, its own writes included. Who comes back after more
events than are kept gets all records instead. These functions run inside that transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from anabranch.errors import Corrupt
from anabranch.metadata.sqlite_file import (
    all_records,
    check_file,
    read_last_version,
    read_number,
    read_record,
    save,
)
from anabranch.metadata.tree import (
    Change,
    Draft,
    EndSession,
    Node,
    Operation,
    Outcome,
    Tree,
)
from anabranch.runtime.world import SqlConnection, SqlValue

KEPT_EVENTS: Final = 10_000
_CREATE = (
    """CREATE TABLE IF NOT EXISTS sessions (
        id INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL)""",
)
# Stands for a record that came and went between two looks. Nobody reads it: it is put into the
# tree and taken out again in one step.
_BRIEF = Node(b"", 0, 0, 0, 0, None)
_NEWEST = "SELECT coalesce(max(seq), 0) FROM events"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything there is, for a process that joins or has fallen behind."""

    tree: Tree
    seen: int  # the last event it includes


@dataclass(frozen=True, slots=True)
class News:
    """The present state of every path that changed since, in the order of the changes."""

    states: Mapping[str, Node | None]
    last_version: int
    seen: int


@dataclass(frozen=True, slots=True)
class Exchange:
    is_alive: bool  # False: our session was ended; nothing was done
    outcomes: Sequence[Outcome]
    news: News | Snapshot


@dataclass(frozen=True, slots=True)
class Peer:
    session: int
    token: str


class SqlRecords:
    """The records as a draft asks for them, inside a transaction."""

    def __init__(self, database: str, connection: SqlConnection) -> None:
        self.last_version = read_last_version(connection)
        self._database = database
        self._connection = connection

    def get(self, path: str) -> Node | None:
        return read_record(self._database, path, self._connection)

    def count_below(self, path: str) -> int:
        sql = "SELECT count(*) FROM records WHERE path > ? AND path < ?"
        return read_number(self._connection, sql, _bounds_below(path))

    def records_within(self, path: str) -> Iterator[str]:
        sql = "SELECT path FROM records WHERE (path > ? AND path < ?) OR path = ?"
        return _texts(self._connection.execute(sql, (*_bounds_below(path), path)))

    def owned_by(self, owner: int) -> list[str]:
        rows = self._connection.execute("SELECT path FROM records WHERE owner = ?", (owner,))
        return list(_texts(rows))


def join(database: str, token: str, connection: SqlConnection) -> tuple[int, Snapshot]:
    """Enter as a new session."""
    check_file(database, connection)
    for statement in _CREATE:
        connection.execute(statement)
    # Of a process that had the file to itself. With others about, every owner has its row.
    connection.execute(
        """DELETE FROM records
            WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM sessions)"""
    )
    connection.execute("INSERT INTO sessions (token) VALUES (?)", (token,))
    session = read_number(connection, "SELECT max(id) FROM sessions")
    return session, _snapshot(database, connection)


def exchange(
    database: str,
    session: int,
    seen: int,
    now_ms: int,
    operations: Sequence[Operation],
    connection: SqlConnection,
) -> Exchange:
    alive = read_number(connection, "SELECT count(*) FROM sessions WHERE id = ?", (session,))
    if not alive:
        return Exchange(False, (), News({}, 0, seen))
    outcomes = _carry_out(database, now_ms, operations, connection)
    return Exchange(True, outcomes, _news(database, seen, connection))


def peers(session: int, connection: SqlConnection) -> list[Peer]:
    rows = connection.execute(
        "SELECT id, token FROM sessions WHERE id != ? ORDER BY id", (session,)
    )
    return [
        Peer(peer, token)
        for peer, token in rows
        if isinstance(peer, int) and isinstance(token, str)
    ]


def end_session(database: str, session: int, now_ms: int, connection: SqlConnection) -> None:
    _carry_out(database, now_ms, [EndSession(session)], connection)
    connection.execute("DELETE FROM sessions WHERE id = ?", (session,))


def replay(tree: Tree, states: Mapping[str, Node | None]) -> list[Change]:
    """What brings a tree to these states, with every life and death that listeners must hear of."""
    changes: list[Change] = []
    for path, node in states.items():
        before = tree.get(path)
        if before is None and node is None:
            changes += [Change(path, _BRIEF), Change(path, None)]
        elif before is not None and (node is None or node.first_version != before.first_version):
            changes.append(Change(path, None))
            before = None
        if node is not None and (before is None or before.version != node.version):
            changes.append(Change(path, node))
    return changes


def _carry_out(
    database: str, now_ms: int, operations: Sequence[Operation], connection: SqlConnection
) -> list[Outcome]:
    draft = Draft(SqlRecords(database, connection), now_ms)
    outcomes = [draft.apply(operation) for operation in operations]
    if draft.changes:
        save(draft.final(), draft.last_version, connection)
        _tell(draft.changes, connection)
    return outcomes


def _tell(changes: Iterable[Change], connection: SqlConnection) -> None:
    for change in changes:
        connection.execute("INSERT INTO events (path) VALUES (?)", (change.path,))
    newest = read_number(connection, _NEWEST)
    connection.execute("DELETE FROM events WHERE seq <= ?", (newest - KEPT_EVENTS,))


def _news(database: str, seen: int, connection: SqlConnection) -> News | Snapshot:
    newest = read_number(connection, _NEWEST)
    oldest = read_number(connection, "SELECT coalesce(min(seq), 0) FROM events")
    if seen < oldest - 1:
        return _snapshot(database, connection)
    rows = connection.execute("SELECT path FROM events WHERE seq > ? ORDER BY seq", (seen,))
    paths = dict.fromkeys(_texts(rows))
    states = {path: read_record(database, path, connection) for path in paths}
    return News(states, read_last_version(connection), newest)


def _snapshot(database: str, connection: SqlConnection) -> Snapshot:
    tree = Tree(all_records(database, connection), read_last_version(connection))
    return Snapshot(tree, read_number(connection, _NEWEST))


def _bounds_below(path: str) -> tuple[str, str]:
    # '0' is the character after '/', so this is every path that continues with a slash.
    start = "" if path == "/" else path
    return f"{start}/", f"{start}0"


def _texts(rows: Iterable[tuple[SqlValue, ...]]) -> Iterator[str]:
    for (text,) in rows:
        if not isinstance(text, str):
            raise Corrupt(f"a path was expected in the metadata database, not {text!r}")
        yield text
