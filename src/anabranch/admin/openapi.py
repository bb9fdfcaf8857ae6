"""The API described for machines (OpenAPI 3.1), written from the endpoints themselves.

The page for people needs nothing from elsewhere: it reads the description and lists it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import anabranch
from anabranch.admin.endpoints import Endpoint, is_name

# What any request can be answered with: not understood, refused, too large, too many, not now.
COMMON_REFUSALS: Final = (400, 404, 405, 412, 413, 429, 503)
_REASONS: Final = {
    400: "the request cannot be read",
    404: "not found",
    405: "not for a thing of this kind, or switched off",
    406: "not acceptable",
    409: "conflict",
    412: "not in this state, or not a valid value",
    413: "the body is too large",
    422: "understood, and impossible",
    429: "too many requests",
    503: "not now",
}
# Elements of a path that are numbers; everything else is text.
_INTEGERS: Final = frozenset({"seconds", "timestamp", "count", "version", "position"})


def describe(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Anabranch admin API", "version": anabranch.__version__},
        "paths": paths,
        "components": {
            "schemas": {
                "Refusal": {
                    "type": "object",
                    "required": ["reason"],
                    "properties": {"reason": {"type": "string"}},
                }
            }
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        # A name that generators of clients can use.
        "operationId": re.sub(r"\W+", "_", f"{endpoint.method.lower()}{endpoint.path}").strip("_"),
        "tags": [endpoint.tag],
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint),
    }
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": endpoint.is_body_required,
            "content": {"application/json": {"schema": dict(endpoint.body)}},
        }
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    names = [each[1:-1] for each in endpoint.elements if is_name(each)]
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer" if name in _INTEGERS else "string"},
        }
        for name in names
    ]
    found += [
        {
            "name": each.name,
            "in": "query",
            "required": False,
            "description": each.meaning,
            "schema": dict(each.schema),
        }
        for each in endpoint.query
    ]
    return found


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "done"}
    if endpoint.answer is not None:
        success["content"] = {"application/json": {"schema": dict(endpoint.answer)}}
    elif endpoint.success == 200:
        success["content"] = {"text/plain": {"schema": {"type": "string"}}}
    responses = {str(endpoint.success): success}
    if endpoint.answer is not None and endpoint.method == "GET":
        responses["204"] = {"description": "not set"}
    refused = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    for status in sorted({*COMMON_REFUSALS, *endpoint.refusals}):
        responses[str(status)] = {"description": _REASONS[status], "content": refused}
    return responses


DOCS_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Anabranch admin API</title><style>
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}
code{font:13px ui-monospace,monospace}td{padding:.2rem .8rem .2rem 0;vertical-align:top}
h2{margin:1.6rem 0 .3rem}.m{font-weight:600}
</style></head><body><h1>Anabranch admin API</h1>
<p>For machines: <a href="openapi.json">openapi.json</a></p><div id="list">loading</div><script>
fetch("openapi.json").then(r=>r.json()).then(api=>{const byTag={};
for(const [path,ways] of Object.entries(api.paths))for(const [method,it] of Object.entries(ways))
(byTag[it.tags[0]]??=[]).push([method.toUpperCase(),path,it.summary,Object.keys(it.responses)]);
const list=document.getElementById("list");list.textContent="";
const add=(at,tag,text,kind)=>{const e=document.createElement(tag);if(text)e.textContent=text;
if(kind)e.className=kind;at.append(e);return e};
for(const [tag,rows] of Object.entries(byTag)){add(list,"h2",tag);const table=add(list,"table");
for(const [method,path,summary,statuses] of rows){const row=add(table,"tr");
add(add(row,"td"),"code",method,"m");add(add(row,"td"),"code",path);add(row,"td",summary);
add(add(row,"td"),"code",statuses.join(" "))}}});
</script></body></html>
"""
