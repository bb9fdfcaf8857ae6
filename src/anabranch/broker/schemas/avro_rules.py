"""Whether a reader with one Avro schema can read what was written with another.

The Avro project's own package parses and decides; this module bounds it, turns everything it may
raise on hostile input into one error, and turns its verdict into a sentence. Names and symbols are
not held to Avro's grammar, because Pulsar's clients derive them from Java and Python classes. For
the same reason records are told by their fields and not by their names: a class that was renamed
still reads what it wrote before, and upstream lets it pass.

JSON schemas are Avro records too, except those of clients from before Pulsar 2.1, which sent a
JSON-schema text. Such a text is only ever compared by its `id`.
"""

from __future__ import annotations

import json
import warnings
from functools import lru_cache
from typing import Any

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException
from avro.schema import Schema, parse

from anabranch.errors import InvalidInput

# What the parser raises beside its own errors when types are nested or mixed up in odd ways.
_PARSE_ERRORS = (
    AvroException, ValueError, TypeError, KeyError, AttributeError, RecursionError,
)  # fmt: skip


class _ByFields(ReaderWriterCompatibilityChecker):
    """The package would have records of the same name only."""

    def calculate_compatibility(self, reader: Any, writer: Any, location: list[str]) -> Any:
        if reader.type == writer.type == "record":
            return self.check_reader_writer_record_fields(reader, writer, location)
        return super().calculate_compatibility(reader, writer, location)


# One question parses the same few schemas again and again: well-formed? reads old? read by old?
@lru_cache(maxsize=8)
def parse_avro(data: bytes) -> Schema:
    try:
        text = data.decode()
        with warnings.catch_warnings():
            # An unknown logical type is its underlying type; that is no news to an operator.
            warnings.simplefilter("ignore")
            return parse(text, validate_enum_symbols=False, validate_names=False)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not an Avro schema: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise InvalidInput("not an Avro schema we take: nested too deeply") from None
    except _PARSE_ERRORS as error:
        raise InvalidInput(f"not an Avro schema: {str(error)[:300]}") from None


def avro_obstacle(reader: bytes, writer: bytes) -> str | None:
    """Why the reader could not read it; None if it can. InvalidInput unless both are Avro."""
    reading, writing = parse_avro(reader), parse_avro(writer)
    try:
        # The package leaves this class untyped.
        checker: Any = _ByFields
        result = checker().get_compatibility(reading, writing)
    except _PARSE_ERRORS as error:
        raise InvalidInput(f"Avro schemas that cannot be compared: {str(error)[:300]}") from None
    if result.compatibility is SchemaCompatibilityType.compatible:
        return None
    kinds = ", ".join(sorted({each.value for each in result.incompatibilities}))
    where = ", ".join(sorted(result.locations - {"/"})) or "/"
    said = "; ".join(sorted(result.messages))
    return f"{kinds} at {where}: {said}"[:1000]


def same_avro(one: bytes, other: bytes) -> bool:
    """Equal as JSON: white space and the order of keys do not make a new version."""
    if one == other:
        return True
    try:
        # As text again: to Python 1, 1.0 and true are equal, to a default they are not.
        first, second = (json.dumps(json.loads(each), sort_keys=True) for each in (one, other))
    except (ValueError, RecursionError):
        return False
    return first == second


def legacy_json_id(data: bytes) -> str | None:
    """The id of a JSON-schema text of old clients; None if it is none, "" if it has no id."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("type"), str):
        return None
    if "fields" in found:  # a broken Avro record, not an old schema
        return None
    text = found.get("id", "")
    return text if isinstance(text, str) else ""
