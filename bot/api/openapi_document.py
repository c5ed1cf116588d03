"""The document of the API as its readers want it: names, summaries, scopes and examples beside FastAPI's findings.

Nothing here decides anything. A route's docstring describes it, and its dependency names the scope that it needs; the
rest is the same for all routes, and is written here once.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from fastapi.routing import APIRoute, APIRouter
from pydantic import JsonValue

from bot.api.requests import Needs

Document: TypeAlias = dict[str, JsonValue]
_Nested: TypeAlias = dict[str, dict[str, Document]]

_ABOUT: Final = (
    "Programs drive sessions as people do in a chat. A session above the clearance of its token is as absent as one "
    "that never was. Read docs/api.md first: it begins with three shells and curl."
)
_SCHEME: Final = (
    "`Authorization: Bearer TOKEN`, with the token that `lockgate token create` prints. Its scope is `read`, `steer` "
    "or `admin`, and each includes those before it."
)
_TAGS: Final = MappingProxyType(
    {
        "tokens": "Who a token is.",
        "sessions": "Sessions of this program: begun, followed, steered and ended.",
        "runs": "Sessions that go on by themselves until they are done.",
        "schedules": "Runs and reminders that are due at a moment.",
        "memories": "Facts that this program and its sessions learned.",
        "workflows": "Work in steps of this program and its sessions.",
        "questions": "Questions of agents to this program.",
        "approvals": "Calls that wait for consent.",
        "grants": "Consent that counts for further calls.",
        "simulations": "Decisions of the gate about calls that nobody makes.",
        "copies": "Signed copies of sessions.",
        "audit": "The decisions, with their reasons.",
        "lineage": "The sources of a thing, and where it went.",
        "webhooks": "Events that are sent to a server.",
    }
)
_PARAMETERS: Final = MappingProxyType(
    {
        "sid": "The id of a session.",
        "tid": "The id of a turn, as `last_turn` or a list of turns tells it.",
        "qid": "The id of a question.",
        "aid": "The id of an approval.",
        "gid": "The id of a grant.",
        "rid": "The id of a run.",
        "hid": "The id of a schedule.",
        "mid": "The id of a memory.",
        "project": "The name of a workflow.",
        "step": "The id of a step.",
        "wid": "The id of a webhook.",
        "did": "The `webhook-id` of an event that was not taken.",
        "chain": "The chain of a row: the id of a session, or the chain of decisions outside sessions.",
        "name": "The name of a row in its chain: the part of its id behind the `:`.",
        "lid": "The id of an event, session, delivery, run, schedule, memory, skill or file.",
        "direction": "`back` to where it came from, or `forward` to where it went.",
        "depth": "Over how many steps it is traced at most.",
        "limit": "How many are listed at most.",
        "cursor": "The `cursor` of the page before.",
        "before": "The `next` of the page before.",
        "status": "Lists sessions of this status alone; archived ones are listed with `archived` alone.",
        "kind": "Lists sessions of this kind alone.",
        "wait": "For how many seconds a turn that runs, or is about to, is waited for.",
        "whole": "Leaves nothing out, with the scope admin.",
        "ended": "Lists also runs that are over.",
        "as_top": "Takes a file of a signer who is not known, as high as anything can be.",
        "webhook": "The id of the one webhook whose events are listed.",
        "Idempotency-Key": "A key of the program's own: the same key with the same body is the same request.",
    }
)
_EXAMPLES: Final[Mapping[str, JsonValue]] = MappingProxyType(
    {
        "SessionRequest": {"input": "Is the quay office open today?", "key": "morning-round"},
        "SessionBegun": {"id": "rlfjpheujltmbnvfht7gkkkq3z7t3yt6", "created": True, "created_at": 1795649976540},
        "MessageRequest": {"text": "And tomorrow?", "mode": "steer"},
        "MessageTaken": {"seq": 2},
        "ResultDocument": {
            "status": "idle",
            "last_turn": {
                "id": "2drrcuft576vwyim",
                "state": "ok",
                "yield_reason": "completed",
                "result_event_id": 4,
            },
            "result": {"type": "agent.message", "level": "user", "body": {"text": "It is, from 8:30 to 17:00."}},
            "inputs": [1],
        },
        "NewRun": {"goal": "File the mail of this week.", "slot": "filing", "hours": 6},
        "NewNoteRequest": {"text": "Leave out the drafts.", "priority": "urgent"},
        "NewMemory": {"text": "The ferry leaves at nine.", "domain": "harbor"},
        "CorrectedText": {"text": "The ferry leaves at ten."},
        "RecallQuery": {"query": "When does the ferry leave?", "limit": 3},
        "NewSchedule": {"kind": "run", "when": "every weekday 7:30", "text": "Report the mail of the night."},
        "NewWorkflow": {"project": "harbour", "definition": "note-review"},
        "StepBegun": {"step": "1", "version": 1, "files": ["notes.md"]},
        "SubStepReached": {"sub_step": "outline", "version": 2, "artifacts": ["agent-output/harbour/01-draft.md"]},
        "DecisionNoted": {"version": 3, "title": "Format", "choice": "Markdown", "rationale": "Everybody reads it."},
        "SeenVersion": {"version": 4},
        "AnswerRequest": {"answer": True},
        "ApprovalAnswer": {"answer": "deny"},
        "SimulatedCall": {"tool": "read_file", "arguments": {"path": "public/welcome.md"}},
        "NewWebhook": {"url": "https://bot.example.org/hook", "level": "user"},
        "ErrorDocument": {
            "error": {
                "code": "rate_limited",
                "message": "Too many requests.",
                "next_step": "Wait as many seconds as `Retry-After` tells.",
            },
            "request_id": "req_nuaa4d72a2dzx7la",
        },
    }
)
_SENTENCE: Final = re.compile(r"(?<=[^.])\.(?:\s|$)")


def described(found: Document, routers: Iterable[APIRouter], prefix: str) -> Document:
    """Return the document of these routers' routes, which FastAPI found, with the facts that it does not know."""
    told: Document = {**found, "info": {**cast("Document", found["info"]), "description": _ABOUT}}
    paths = cast("_Nested", told["paths"])
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        path = f"{prefix}{route.path_format}"
        for method in route.methods or ():
            if method.lower() in paths.get(path, {}):
                _describe(paths[path][method.lower()], route, method)
    components = cast("_Nested", told["components"])
    for name, example in _EXAMPLES.items():
        components["schemas"][name]["examples"] = [example]
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": _SCHEME}}
    told["servers"] = [{"url": "http://127.0.0.1:8484", "description": "As `channels.api` is shipped."}]
    told["security"] = [{"token": []}]
    told["tags"] = [{"name": name, "description": about} for name, about in _TAGS.items()]
    return told


def _describe(operation: Document, route: APIRoute, method: str) -> None:
    about = cast("str", operation["description"]).strip()
    operation["operationId"] = operation_id(method, route.path_format)
    operation["summary"] = " ".join(_SENTENCE.split(about, maxsplit=1)[0].split())
    for needed in (one.call for one in route.dependant.dependencies):
        if isinstance(needed, Needs):
            scope = needed.scope.value
            operation["description"] = f"{about}\n\nNeeds the scope `{scope}`."
            operation["security"] = [{"token": [scope]}]
    for parameter in cast("list[Document]", operation.get("parameters", [])):
        if not parameter.get("description"):
            parameter["description"] = _PARAMETERS.get(cast("str", parameter["name"]), "")


def operation_id(method: str, path: str) -> str:
    """Return the name of an operation: made of its path, so that it lasts as long.

    One of several has their name in the singular: `GET /sessions/{sid}/turns` is `get_session_turns`.
    """
    one = re.sub(r"s/\{[a-z]+\}", "", path)
    return "_".join([method.lower(), *re.findall(r"[a-z]+", one)])
