"""Changing small JSON records in the metadata store: read, decide, compare-and-set, again if lost.

The one place where the broker's records meet the store, so that "not there", "there already" and
"changed under my hands" become the right errors everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from anabranch.errors import AlreadyExists, BadVersion, NotFound, Unavailable
from anabranch.metadata.store import NEW, MetadataStore
from anabranch.topics.json_fields import Json, encode_json, parse_json

T = TypeVar("T")
# Each lost race means that somebody else got through, so this many in a row is a fault elsewhere.
ATTEMPTS: Final = 16


async def load_record(store: MetadataStore, path: str, parse: Callable[[Json, str], T]) -> T | None:
    found = await store.get(path)
    return None if found is None else parse(parse_json(found[0], path), path)


async def create_record(store: MetadataStore, path: str, value: dict[str, Json], what: str) -> None:
    try:
        await store.put(path, encode_json(value), NEW)
    except BadVersion:
        raise AlreadyExists(f"{what} exists already") from None


async def change_record(
    store: MetadataStore,
    path: str,
    parse: Callable[[Json, str], T],
    change: Callable[[T], T],
    encode: Callable[[T], dict[str, Json]],
    what: str,
) -> T:
    """What is stored in the end. `change` may be called again, and may raise to refuse."""
    for _ in range(ATTEMPTS):
        found = await store.get(path)
        if found is None:
            raise NotFound(f"{what} does not exist")
        value, stat = found
        old = parse(parse_json(value, path), path)
        new = change(old)
        if new == old:
            return old
        try:
            await store.put(path, encode_json(encode(new)), stat.version)
        except BadVersion:
            continue
        return new
    raise Unavailable(f"{what} was changed by others {ATTEMPTS} times over; try again")


async def delete_record(store: MetadataStore, path: str, what: str) -> None:
    try:
        await store.delete(path)
    except NotFound:
        raise NotFound(f"{what} does not exist") from None
