"""Calls of the admin API, and how their answers are shown, to people or to scripts."""

from __future__ import annotations

import functools
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

import click

ADMIN_URL: Final = "http://localhost:8080"
TIMEOUT_SECONDS: Final = 150.0


@dataclass(frozen=True, slots=True)
class Asking:
    admin_url: str
    as_json: bool = False

    def ask(
        self,
        method: str,
        *elements: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        root: str = "/admin/v2",
    ) -> Any:
        """The JSON or text of the answer, None if there is none. ClickException if refused."""
        path = "/".join([root, *(quote(each, safe="") for each in elements)])
        asked = {key: _text(value) for key, value in (query or {}).items() if value is not None}
        url = self.admin_url.rstrip("/") + path + (f"?{urlencode(asked)}" if asked else "")
        request = urllib.request.Request(
            url,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "*/*"},
        )
        return _read(request)

    def get(self, *elements: str, **query: Any) -> Any:
        return self.ask("GET", *elements, query=query)

    def done(self, what: str, method: str, *elements: str, **more: Any) -> None:
        """A call without an answer; says what it did."""
        self.ask(method, *elements, **more)
        self.say(what)

    def say(self, what: str) -> None:
        click.echo(json.dumps({"done": what}) if self.as_json else what)

    def show(self, value: Any, columns: Sequence[str] = ()) -> None:
        """JSON as it is, or a table, or a name on each line."""
        if self.as_json:
            click.echo(json.dumps(value, indent=2))
        elif value is None:
            click.echo("not set")
        elif isinstance(value, list) and columns:
            click.echo(table(columns, [[each.get(name, "") for name in columns] for each in value]))
        elif isinstance(value, list):
            for each in value:
                click.echo(each if isinstance(each, str) else json.dumps(each))
        elif isinstance(value, dict):
            click.echo(table((), [[key, _cell(each)] for key, each in value.items()]))
        else:
            click.echo(_cell(value))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(request: urllib.request.Request) -> Any:
    if not request.full_url.startswith(("http://", "https://")):
        raise click.UsageError(f"{request.full_url!r} is no http address")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as reply:
            data, kind = reply.read(), reply.headers.get_content_type()
    except urllib.error.HTTPError as error:
        with error:
            raise click.ClickException(_reason(error.code, error.read())) from None
    except (OSError, ValueError) as error:
        cause = getattr(error, "reason", error)
        raise click.ClickException(f"no answer from {request.full_url}: {cause}") from None
    if not data:
        return None
    return json.loads(data) if kind == "application/json" else data.decode()


def _reason(status: int, body: bytes) -> str:
    try:
        return f"{json.loads(body)['reason']} (status {status})"
    except (ValueError, KeyError, TypeError):
        return f"refused with status {status}"


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns as wide as their widest cell, the last one as it comes."""
    cells = [[_cell(each) for each in row] for row in rows]
    if columns:
        cells.insert(0, [name.upper() for name in columns])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, dict | list):
        return json.dumps(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def asking(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command its `Asking`, and the options that every command has."""

    def with_asking(admin_url: str | None, as_json: bool, **options: Any) -> Any:
        given = click.get_current_context().find_object(Asking) or Asking(ADMIN_URL)
        chosen = replace(
            given, admin_url=admin_url or given.admin_url, as_json=as_json or given.as_json
        )
        return command(chosen, **options)

    functools.update_wrapper(with_asking, command)
    with_url = click.option("--admin-url", help="The broker's REST address.")(with_asking)
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(
        with_url
    )


def topic_elements(name: str) -> tuple[str, str, str]:
    """Tenant, namespace and local name of `topic`, `t/n/topic` or `persistent://t/n/topic`."""
    scheme, found, rest = name.partition("://")
    if found and scheme != "persistent":
        raise click.UsageError(f"{name!r}: this is for persistent topics")
    parts = (rest if found else name).split("/", 2)
    if len(parts) == 1 and not found:
        parts = ["public", "default", *parts]
    if len(parts) != 3 or not all(parts):
        raise click.UsageError(f"{name!r} must be topic or tenant/namespace/topic")
    return parts[0], parts[1], parts[2]


def namespace_elements(name: str) -> tuple[str, str]:
    parts = name.split("/")
    if len(parts) != 2 or not all(parts):
        raise click.UsageError(f"{name!r} must be tenant/namespace")
    return parts[0], parts[1]


def read_properties(texts: Sequence[str]) -> dict[str, str]:
    """From `key=value`, several of them, also with commas between them."""
    found: dict[str, str] = {}
    for text in texts:
        for pair in text.split(","):
            key, equals, value = pair.partition("=")
            if not equals or not key:
                raise click.UsageError(f"{pair!r} must be key=value")
            found[key] = value
    return found
