"""A second, slow reading of the specification: shares no code with `policy/`, reads attribute values only."""

import re
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.labels import Label
    from policy.request import Request
    from policy.rules import Rule

ORDER = ["ALLOW", "REDACT", "REQUIRE_APPROVAL", "BLOCK"]
SIGNS = {"canary": "canary", "us-ssn": "536-90-4399"}
CALLS, ENTRIES = {"PRE_TOOL_CALL", "MCP_TOOL_CALL"}, {"PRE_CONTEXT_INJECTION", "POST_TOOL_RESPONSE"}
Plain = tuple[int, frozenset[str], int]
BOTTOM: Plain = (0, frozenset[str](), 0)


def plain(label: "Label | None", otherwise: Plain = BOTTOM) -> Plain:
    return otherwise if label is None else (int(label.level), frozenset(label.compartments), int(label.integrity))


def join(a: Plain, b: Plain) -> Plain:
    return (max(a[0], b[0]), a[1] | b[1], max(a[2], b[2]))


def flows(a: Plain, b: Plain) -> bool:
    return a[0] <= b[0] and a[1] <= b[1]


def in_window(written: str, there: datetime) -> bool:
    """Walk back minute by minute to where the window would have begun."""
    days, start, stop = re.fullmatch(r"(\S+) (\S+)-(\S+) \S+", written).groups()  # pyright: ignore[reportOptionalMemberAccess]
    minute = there.replace(tzinfo=None, second=0, microsecond=0)
    for _ in range(24 * 60):
        if f"{minute:%H:%M}" == start:
            return f"{minute:%a}".lower() in days
        minute -= timedelta(minutes=1)
        if f"{minute + timedelta(minutes=1):%H:%M}" == stop.replace("24:00", "00:00"):
            return False
    raise AssertionError(written)


def tested(name: str, request: "Request") -> "bool | None":
    """Say what the test of a plugin's rule comes to; None if it fails."""
    return len(request.content) >= 15 if name == "long_text" else None


def holds(written: str, request: "Request", leaves: Plain) -> "bool | None":
    """Evaluate a condition as Python reads it; None if that fails."""
    there, arguments = request.destination, dict(request.arguments)
    names: dict[str, object] = {
        "role": request.role.value,
        "asker": request.asker,
        "asker_role": request.asker_role.value,
        "other_roles": [role.value for role in request.others.roles] if request.others else [],
        "taint_level": leaves[0],
        "taint_compartments": leaves[1],
        "taint_untrusted": bool(leaves[2]),
        "destination_shared": there.shared if there else True,
        "has_canary": SIGNS["canary"] in request.content,
        "has_us_ssn": SIGNS["us-ssn"] in request.content,
        "tool_name": request.tool.name if request.tool else "",
        "arg_amount": arguments.get("amount") or 0,
    }
    python = written.replace("&&", " and ").replace("||", " or ").replace("!", " not ").replace(" not =", "!=")
    python = python.replace("startsWith", "startswith")
    try:
        return bool(eval(python.replace("/", "//"), {"size": len}, names))  # noqa: S307 - conditions of the strategies
    except ZeroDivisionError:
        return None


def commanded(request: "Request", top: Plain) -> dict[str, str]:
    """Say what follows from who asks, and from whose words are in the conversation beside."""
    said, hook, tool = dict[str, str](), request.hook.value, request.tool
    quotes = request.quotes and plain(request.carried)[2] and tool and tool.server and not tool.untrusted_content
    foreign = plain(request.taint)[2] or quotes
    if hook in CALLS and tool and tool.consequential and foreign and not request.approved:
        said["untrusted_cannot_command"] = "REQUIRE_APPROVAL"
    bound = all(not one.outside for one in request.steered)
    if hook in CALLS and tool and tool.consequential and not bound and not request.approved:
        said["endorsed_cannot_steer"] = "REQUIRE_APPROVAL"
    if hook in CALLS and tool and tool.asks and not request.approved:
        said["standing_work_is_approved"] = "REQUIRE_APPROVAL"
    if hook in CALLS and tool and tool.roles is not None and request.asker_role not in tool.roles:
        said["tool_is_for_the_role"] = "BLOCK"
    if hook in CALLS and tool and request.run is not None:
        over = request.run.stopped or request.run.paused
        reads = tool.server == "" and tool.name in {"session_get_state", "session_get_stats", "steering_heartbeat"}
        begins = tool.server == "" and tool.name == "session_initialize" and not over
        said |= {} if reads or begins or (request.run.initialized and not over) else {"run_is_initialized": "BLOCK"}
    if request.others is not None and not request.approved and hook in CALLS and tool:
        reads = tool.result is not None and (tool.effect.value != "none" or tool.server != "")
        above = reads and not flows(join(plain(tool.result), plain(tool.raises)), plain(request.others.clearance))
        denied = tool.roles is not None and any(role not in tool.roles for role in request.others.roles)
        said |= {"others_cannot_command": "REQUIRE_APPROVAL"} if tool.consequential or above or denied else {}
    if request.others is not None and hook == "POST_TOOL_RESPONSE":
        known = flows(plain(request.item, top), plain(request.others.clearance))
        said |= {} if known else {"others_cannot_command": "BLOCK"}
    return said


def decide(  # noqa: C901, PLR0912, PLR0915 - one reading of all the rules, top to bottom
    request: "Request", rules: "Iterable[Rule]", top: "Label", now: datetime
) -> tuple[str, set[str], Plain, set[str]]:
    """Return verdict, ids of the rules that did not allow, label after, patterns to redact."""
    hook, tool, there, taint = request.hook.value, request.tool, request.destination, plain(request.taint)
    said: dict[str, str] = {}
    sink = plain(there.clearance) if there else BOTTOM
    carried = plain(request.carried)
    leaves = join(join(taint, plain(request.item)) if hook == "PRE_OUTPUT" else taint, carried)
    brings, raised = BOTTOM, BOTTOM
    if hook in ENTRIES:
        brings = plain(request.item, plain(top))
    if hook in CALLS and tool and tool.result is not None:
        level, compartments, integrity = join(plain(tool.result), carried)
        brings = (level, compartments, 0 if tool.spared else integrity)
        raised = plain(tool.raises)
    kept = request.held and (hook in CALLS or request.item is not None)
    after = join(taint if kept else join(taint, brings), raised)
    if hook in CALLS | {"POST_TOOL_RESPONSE", "SECRET_ACCESS"} and (not tool or tool.result is None):
        said["unknown_is_worst"] = "BLOCK"
    if hook == "SECRET_ACCESS" and not (request.secret and request.secret.granted):
        said |= {"secret_is_granted": "BLOCK"}
    if hook == "PRE_OUTPUT":
        said |= {} if there else {"unknown_is_worst": "BLOCK"}
        said |= {} if flows(leaves, sink) or request.released else {"no_write_down": "BLOCK"}
    if hook in CALLS and tool:
        outward = tool.effect.value in {"write", "send"}
        sinks = [plain(tool.clearance)] if outward or tool.clearance else []
        sinks += [sink] if outward and there else []
        if not all(flows(leaves, s) for s in sinks):
            own = request.releasable and tool.clearance and all(flows(leaves, s) for s in sinks[1:])
            if not (own and request.released):
                said["no_write_down"] = "REQUIRE_APPROVAL" if own else "BLOCK"
    said |= commanded(request, plain(top))
    reads = hook in CALLS | ENTRIES | {"AGENT_INVOCATION"}
    may_have = flows(join(after, brings), plain(request.ceiling))
    shown = join(after, carried) if hook in CALLS | ENTRIES and tool and tool.shows else after
    if reads and not (may_have and flows(shown, plain(request.provider))):
        said["read_is_decided_before_it_happens"] = "BLOCK"
    shy = request.overshoot in {"ask", "block"} and hook in CALLS | ENTRIES
    said |= {"overshoot": "BLOCK"} if shy and not flows(after, plain(request.home)) else {}
    if hook == "SESSION_RESET":
        after = BOTTOM
        said |= {} if request.confirmed else {"reset_is_confirmed": "REQUIRE_APPROVAL"}
    channel, redact = there.channel if there else request.channel, set[str]()
    for rule in rules:
        fits = rule.hook.value == hook and leaves[0] in {int(level) for level in rule.levels}
        fits = fits and rule.untrusted in {None, bool(leaves[2])}
        fits = fits and (not rule.tools or any(fnmatchcase(tool.name if tool else "", g) for g in rule.tools))
        fits = fits and (not rule.channels or any(fnmatchcase(channel, g) for g in rule.channels))
        fits = fits and (rule.pattern is None or SIGNS[rule.pattern] in request.content)
        fits = fits and (rule.schedule is None or in_window(str(rule.schedule), now.astimezone(rule.schedule.zone)))
        truth = (fits and (rule.when is None or holds(str(rule.when), request, leaves))) and (
            rule.test is None or tested(rule.test.__name__, request)
        )
        if truth is None:
            said[rule.id] = "BLOCK"
        if truth and not (rule.action.name == "REQUIRE_APPROVAL" and request.approved):
            said[rule.id] = rule.action.name
            redact |= {rule.pattern} if rule.pattern and rule.action.name == "REDACT" else set[str]()
    verdict = max(said.values(), key=ORDER.index, default="ALLOW")
    return verdict, set(said), taint if verdict == "BLOCK" else after, redact
