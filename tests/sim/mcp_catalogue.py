"""Tools with the shapes of arguments that well-known MCP servers have, each with a call of it and a call that is none.

The names and the words are our own. `LEFT_OUT` has shapes that config.yaml cannot say, and why.
"""

from dataclasses import dataclass, field
from typing import Any, Final

Schema = dict[str, Any]


@dataclass(frozen=True)
class Shaped:
    """A tool: the schema of its arguments, arguments that fit, and some that do not."""

    name: str
    properties: Schema
    good: Schema
    bad: Schema = field(default_factory=lambda: {"surprise": 1})
    required: tuple[str, ...] = ()
    more: Schema = field(default_factory=dict[str, Any])

    @property
    def schema(self) -> Schema:
        """The JSON Schema of its arguments."""
        return {"type": "object", "properties": self.properties, "required": list(self.required), **self.more}


TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "number", "minimum": 1, "maximum": 100, "default": 30}
POINT: Final[Schema] = {
    "type": "object",
    "properties": {"lat": {"type": "number", "minimum": -90, "maximum": 90}, "lng": {"type": "number"}},
    "required": ["lat", "lng"],
}
MAYBE: Final[Schema] = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Cursor"}
ZOD: Final[Schema] = {"$schema": "http://json-schema.org/draft-07/schema#", "additionalProperties": False}


def tagged(kind: str, **fields: Schema) -> Schema:
    """Return one of several objects that are told apart by their `type`."""
    properties = {"type": {"type": "string", "const": kind}, **fields}
    return {"type": "object", "properties": properties, "required": ["type", *fields], "additionalProperties": False}


PARENT: Final = {"oneOf": [tagged("page_id", page_id=TEXT), tagged("database_id", database_id=TEXT)]}

TOOLS: Final = (
    # A forge of code.
    Shaped(
        "forge.search_code",
        {"q": TEXT, "per_page": COUNT},
        {"q": "x", "per_page": 5},
        {"q": "x", "per_page": 0},
        ("q",),
    ),
    Shaped(
        "forge.list_issues",
        {
            "owner": TEXT,
            "state": {"type": "string", "enum": ["open", "closed", "all"]},
            "labels": {"type": "array", "items": TEXT},
            "since": {"type": "string", "format": "date-time"},
        },
        {"owner": "o", "state": "open", "labels": ["a"]},
        {"owner": "o", "state": "gone"},
        ("owner",),
    ),
    Shaped(
        "forge.push_files",
        {
            "files": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"path": TEXT, "content": TEXT},
                    "required": ["path", "content"],
                },
            }
        },
        {"files": [{"path": "a", "content": "b"}]},
        {"files": [{"path": "a"}]},
        ("files",),
    ),
    Shaped("forge.get_pull", {"number": {"type": "integer", "minimum": 1}}, {"number": 4}, {"number": 0}, ("number",)),
    Shaped(
        "forge.merge", {"method": {"enum": ["merge", "squash", "rebase"]}}, {"method": "squash"}, {"method": "force"}
    ),
    Shaped(
        "forge.review",
        {
            "comments": {
                "type": "array",
                "items": {
                    "anyOf": [
                        {
                            "type": "object",
                            "properties": {"path": TEXT, "line": {"type": "integer"}},
                            "required": ["path", "line"],
                        },
                        {
                            "type": "object",
                            "properties": {"path": TEXT, "position": {"type": "integer"}},
                            "required": ["path", "position"],
                        },
                    ]
                },
            }
        },
        {"comments": [{"path": "a", "line": 1}, {"path": "a", "position": 2}]},
        {"comments": [{"path": "a"}]},
    ),
    Shaped("forge.draft", {"draft": {"type": "boolean", "default": False}}, {"draft": True}, {"draft": "yes"}),
    Shaped(
        "forge.sha",
        {"sha": {"type": "string", "pattern": "^[0-9a-f]{7,40}$"}},
        {"sha": "abcdef0"},
        {"sha": "HEAD"},
        ("sha",),
    ),
    # A messenger.
    Shaped(
        "chat.history",
        {"channel": TEXT, "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10}, "cursor": MAYBE},
        {"channel": "c", "cursor": None},
        {"channel": "c", "limit": 1001},
        ("channel",),
    ),
    Shaped(
        "chat.post",
        {"channel": TEXT, "text": {"type": "string", "maxLength": 40}},
        {"channel": "c", "text": "hi"},
        {"channel": "c", "text": "x" * 41},
        ("channel", "text"),
    ),
    Shaped(
        "chat.react",
        {"name": {"type": "string", "minLength": 1, "pattern": "^[a-z0-9_+-]+$"}},
        {"name": "+1"},
        {"name": ""},
        ("name",),
    ),
    Shaped(
        "chat.blocks",
        {"blocks": {"type": "array", "items": {"type": "object"}}},
        {"blocks": [{"any": {"thing": 1}}]},
        {"blocks": [1]},
    ),
    Shaped("chat.users", {}, {}),
    Shaped("chat.status", {"until": {"type": ["integer", "null"]}}, {"until": None}, {"until": "soon"}, ("until",)),
    # Files.
    Shaped(
        "files.read",
        {"path": TEXT, "head": {"type": "number"}, "tail": {"type": "number"}},
        {"path": "/a", "head": 3},
        {"path": 1},
        ("path",),
        ZOD,
    ),
    Shaped(
        "files.read_many",
        {"paths": {"type": "array", "items": TEXT, "minItems": 1}},
        {"paths": ["a"]},
        {"paths": []},
        ("paths",),
        ZOD,
    ),
    Shaped(
        "files.edit",
        {
            "path": TEXT,
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"oldText": TEXT, "newText": TEXT},
                    "required": ["oldText", "newText"],
                    "additionalProperties": False,
                },
            },
            "dryRun": {"type": "boolean", "default": False},
        },
        {"path": "a", "edits": [{"oldText": "a", "newText": "b"}], "dryRun": True},
        {"path": "a", "edits": [{"oldText": "a", "newText": "b", "mode": 1}]},
        ("path", "edits"),
        ZOD,
    ),
    Shaped(
        "files.tree",
        {"path": TEXT, "exclude": {"type": "array", "items": TEXT, "default": []}},
        {"path": "a", "exclude": ["b"]},
        {"path": "a", "exclude": "b"},
        ("path",),
    ),
    Shaped(
        "files.list",
        {"sortBy": {"type": "string", "enum": ["name", "size"], "default": "name"}},
        {"sortBy": "size"},
        {"sortBy": "age"},
    ),
    Shaped("files.mode", {"mode": {"type": "integer", "enum": [420, 493]}}, {"mode": 420}, {"mode": 511}, ("mode",)),
    # Pages and databases of notes.
    Shaped(
        "pages.create",
        {"parent": PARENT, "properties": {"type": "object", "additionalProperties": True}},
        {"parent": {"type": "page_id", "page_id": "p"}, "properties": {"Name": {"title": []}}},
        {"parent": {"type": "page_id"}},
        ("parent",),
    ),
    Shaped(
        "pages.search",
        {"query": TEXT, "start_cursor": TEXT, "page_size": {"type": "integer", "default": 100, "maximum": 100}},
        {"query": "a"},
        {"page_size": 200},
    ),
    Shaped(
        "pages.get",
        {"page_id": {"type": "string", "format": "uuid"}, "Notes-Version": {"const": "2022-06-28"}},
        {"page_id": "p", "Notes-Version": "2022-06-28"},
        {"page_id": "p", "Notes-Version": "x"},
        ("page_id",),
    ),
    Shaped(
        "pages.append",
        {"children": {"type": "array", "items": {"$ref": "#/$defs/block"}, "maxItems": 100}},
        {"children": [{"kind": "text", "text": "a"}]},
        {"children": [{"kind": "text"}]},
        ("children",),
        {
            "$defs": {
                "block": {
                    "type": "object",
                    "properties": {"kind": TEXT, "text": {"$ref": "#/$defs/text"}},
                    "required": ["kind", "text"],
                },
                "text": TEXT,
            }
        },
    ),
    Shaped(
        "pages.icon",
        {"icon": {"oneOf": [TEXT, {"type": "object", "properties": {"url": TEXT}, "required": ["url"]}]}},
        {"icon": {"url": "u"}},
        {"icon": 3},
    ),
    Shaped(
        "pages.rich",
        {"rich": {"allOf": [{"$ref": "#/definitions/rich"}], "description": "the text"}},
        {"rich": {"plain": "a"}},
        {"rich": "a"},
        (),
        {"definitions": {"rich": {"type": "object", "properties": {"plain": TEXT}}}},
    ),
    # Databases.
    Shaped(
        "sql.query",
        {"sql": TEXT, "params": {"type": "array", "items": {}}},
        {"sql": "select 1", "params": [1, "a", None]},
        {"sql": 1},
        ("sql",),
    ),
    Shaped("sql.query_params", {"params": {"type": "array"}}, {"params": [{"a": 1}]}, {"params": "a"}),
    Shaped("sql.plan", {"mode": {"enum": ["estimate", "measure", None]}}, {"mode": None}, {"mode": "guess"}),
    Shaped(
        "kv.set",
        {
            "key": TEXT,
            "value": {"type": ["string", "number", "boolean"]},
            "ttl": {"type": "integer", "exclusiveMinimum": 0},
        },
        {"key": "a", "value": 1.5, "ttl": 1},
        {"key": "a", "value": [], "ttl": 1},
        ("key", "value"),
    ),
    Shaped("kv.any", {"value": {"description": "any JSON"}}, {"value": {"a": [1]}}, {"other": 1}, ("value",)),
    Shaped(
        "kv.scan",
        {"cursor": {"type": "integer", "minimum": 0, "exclusiveMinimum": False}},
        {"cursor": 0},
        {"cursor": -1},
    ),
    Shaped(
        "table.insert",
        {"fields": {"type": "object", "additionalProperties": {"type": ["string", "number"]}}},
        {"fields": {"a": "b", "c": 1}},
        {"fields": {"a": True}},
        ("fields",),
    ),
    Shaped(
        "table.update",
        {
            "records": {
                "type": "array",
                "minItems": 1,
                "maxItems": 10,
                "items": {
                    "type": "object",
                    "properties": {"id": TEXT, "fields": {"type": "object", "additionalProperties": {}}},
                    "required": ["id", "fields"],
                },
            }
        },
        {"records": [{"id": "r", "fields": {"x": None}}]},
        {"records": []},
        ("records",),
    ),
    # The web.
    Shaped(
        "web.fetch",
        {
            "url": {"type": "string", "format": "uri", "minLength": 1},
            "max_length": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 1000000, "default": 5000},
            "raw": {"type": "boolean", "default": False},
        },
        {"url": "u", "max_length": 9},
        {"url": "u", "max_length": 1000000},
        ("url",),
    ),
    Shaped(
        "web.search",
        {
            "count": {"type": "integer", "minimum": 1, "maximum": 20, "default": 10},
            "freshness": {"type": "string", "enum": ["pd", "pw", "pm"]},
        },
        {"count": 20},
        {"count": 21},
    ),
    Shaped(
        "browser.click",
        {
            "x": {"type": "number"},
            "y": {"type": "number"},
            "button": {"anyOf": [{"const": "left"}, {"const": "right"}]},
        },
        {"x": 1, "y": 2.5, "button": "left"},
        {"x": 1, "y": 2, "button": "both"},
        ("x", "y"),
    ),
    Shaped(
        "browser.fill",
        {
            "fields": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"ref": TEXT, "value": {"type": ["string", "boolean"]}},
                    "required": ["ref"],
                },
                "uniqueItems": True,
            }
        },
        {"fields": [{"ref": "a", "value": True}]},
        {"fields": [{"ref": "a"}, {"ref": "a"}]},
    ),
    Shaped("browser.wait", {"seconds": {"type": "number", "multipleOf": 0.1}}, {"seconds": 0.3}, {"seconds": 0.35}),
    Shaped(
        "maps.route",
        {"from": POINT, "to": {"anyOf": [POINT, TEXT]}},
        {"from": {"lat": 1, "lng": 2}, "to": "home"},
        {"from": {"lat": 91, "lng": 2}, "to": "home"},
        ("from", "to"),
    ),
    Shaped(
        "maps.elevation",
        {"points": {"type": "array", "items": POINT, "maxItems": 2}},
        {"points": [{"lat": 1, "lng": 2}]},
        {"points": [{"lat": 1}]},
    ),
    # Memory, time, thinking.
    Shaped(
        "memory.create",
        {
            "entities": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": TEXT, "observations": {"type": "array", "items": TEXT}},
                    "required": ["name", "observations"],
                },
            }
        },
        {"entities": [{"name": "a", "observations": ["b"]}]},
        {"entities": [{"name": "a", "observations": [1]}]},
    ),
    Shaped(
        "time.convert",
        {"source": TEXT, "time": {"type": "string", "pattern": "^\\d{2}:\\d{2}$"}},
        {"source": "UTC", "time": "10:30"},
        {"source": "UTC", "time": "1030"},
        ("source", "time"),
    ),
    Shaped(
        "think.step",
        {
            "thought": TEXT,
            "step": {"type": "integer", "minimum": 1},
            "next": {"type": "boolean"},
            "branch": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        {"thought": "a", "step": 1, "next": False, "branch": None},
        {"thought": "a", "step": 0, "next": False},
        ("thought", "step", "next"),
    ),
    # Work and money.
    Shaped(
        "tracker.create",
        {
            "title": TEXT,
            "priority": {"type": "number", "enum": [0, 1, 2, 3.5]},
            "estimate": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        },
        {"title": "a", "priority": 3.5, "estimate": None},
        {"title": "a", "priority": 4},
        ("title",),
    ),
    Shaped("tracker.labels", {"ids": {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}}, {"ids": ["a"]}, {"ids": 1}),
    Shaped(
        "pay.invoice",
        {
            "amount": {"type": "integer", "minimum": 1},
            "currency": {"type": "string", "minLength": 3, "maxLength": 3},
            "metadata": {"type": "object", "additionalProperties": TEXT, "propertyNames": TEXT},
        },
        {"amount": 5, "currency": "eur", "metadata": {"a": "b"}},
        {"amount": 5, "currency": "euro"},
        ("amount",),
    ),
    Shaped(
        "pay.refund",
        {"reason": {"type": "string", "enum": ["duplicate", "fraudulent"], "nullable": True}},
        {"reason": None},
        {"reason": "other"},
    ),
    Shaped(
        "cluster.scale",
        {
            "replicas": {"type": "integer", "minimum": 0, "maximum": 50},
            "x-order": {"type": "string", "x-hint": "internal"},
        },
        {"replicas": 0},
        {"replicas": 51},
    ),
    Shaped(
        "cluster.apply",
        {"manifest": {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]}},
        {"manifest": [{"kind": "Pod"}]},
        {"manifest": "kind: Pod"},
    ),
    Shaped("mixed.level", {"level": {"enum": [1, "auto", True]}}, {"level": "auto"}, {"level": 1.5}),
)

LEFT_OUT: Final = (
    (
        Shaped(
            "odd.tree",
            {"node": {"$ref": "#/$defs/node"}},
            {},
            more={"$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}}}},
        ),
        "leads back to itself",
    ),
    (Shaped("odd.names", {"map": {"type": "object", "patternProperties": {"^a": TEXT}}}, {}), "`patternProperties`"),
    (Shaped("odd.both", {"a": {"allOf": [TEXT, {"minLength": 1}]}}, {}), "`allOf` joins several"),
    (
        Shaped("odd.overlap", {"a": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}, {}),
        "alternatives that overlap",
    ),
    (Shaped("odd.ahead", {"a": {"type": "string", "pattern": "^(?=a).*$"}}, {}), "not an RE2 pattern"),
    (Shaped("odd.escape", {"a": {"type": "string", "pattern": "\\Aa"}}, {}), "which RE2 reads otherwise"),
    (Shaped("odd.tuple", {"a": {"type": "array", "prefixItems": [TEXT]}}, {}), "`prefixItems`"),
    (Shaped("odd.when", {"a": TEXT}, {}, more={"if": {"required": ["a"]}, "then": {}}), "keyword `if`"),
    (Shaped("odd.size", {"a": {"type": "object", "minProperties": 1}}, {}), "`minProperties`"),
    (Shaped("odd.needs", {"a": TEXT}, {}, more={"anyOf": [{"required": ["a"]}]}), "beside `anyOf`"),
    (Shaped("odd name\n- injected: true", {}, {}), "its name has other characters"),
    (Shaped("odd.argument", {"a: b": TEXT}, {}), "is not the name of an argument"),
    (Shaped("odd.away", {"a": {"$ref": "https://example.com/schema.json"}}, {}), "`$ref` leads elsewhere"),
)
