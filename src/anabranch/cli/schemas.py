"""Schemas of topics."""

from __future__ import annotations

import json
from typing import Any, TextIO

import click

from anabranch.cli.asking import Asking, asking, topic_elements


@click.group()
def schemas() -> None:
    """Schemas of topics."""


@schemas.command()
@click.argument("topic")
@click.option("-v", "--version", type=int, help="The latest, if not given.")
@click.option("-a", "--all-version", is_flag=True, help="All that are live.")
@asking
def get(asked: Asking, topic: str, version: int | None, all_version: bool) -> None:
    """A schema of a topic."""
    path = ("schemas", *topic_elements(topic))
    if all_version:
        found = asked.get(*path, "schemas")["getSchemaResponses"]
        asked.show(found, ("version", "type", "data"))
        return
    asked.show(asked.get(*path, "schema", *([] if version is None else [str(version)])))


def _read(file: TextIO) -> Any:
    try:
        return json.load(file)
    except ValueError as error:
        raise click.ClickException(f"{file.name} is not JSON: {error}") from None


FILE = click.option(
    "-f",
    "--filename",
    type=click.File("r", encoding="utf-8"),
    required=True,
    help='JSON: {"type": "JSON", "schema": "…", "properties": {}}; - reads standard input.',
)


@schemas.command()
@click.argument("topic")
@FILE
@asking
def upload(asked: Asking, topic: str, filename: TextIO) -> None:
    """Register a schema."""
    path = ("schemas", *topic_elements(topic), "schema")
    asked.show(asked.ask("POST", *path, body=_read(filename)))


@schemas.command()
@click.argument("topic")
@FILE
@asking
def compatibility(asked: Asking, topic: str, filename: TextIO) -> None:
    """Whether a schema may follow those the topic has; exit code 1 if not."""
    path = ("schemas", *topic_elements(topic), "compatibility")
    found = asked.ask("POST", *path, body=_read(filename))
    asked.show(found)
    if not found["isCompatibility"]:
        raise click.exceptions.Exit(1)


@schemas.command()
@click.argument("topic")
@click.option("-f", "--force", is_flag=True, help="Remove all versions, as if never there.")
@asking
def delete(asked: Asking, topic: str, force: bool) -> None:
    """End the life of all versions; messages that carry them stay readable."""
    path = ("schemas", *topic_elements(topic), "schema")
    asked.done(f"deleted the schema of {topic}", "DELETE", *path, query={"force": force})
