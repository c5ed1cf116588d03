"""A second, slow reading of the specification: shares no code with `policy/`, reads attribute values only."""

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


def decide(  # noqa: C901 - one reading of all the rules, top to bottom
    request: "Request", rules: "Iterable[Rule]", top: "Label"
) -> tuple[str, set[str], Plain, set[str]]:
    """Return verdict, ids of the rules that did not allow, label after, patterns to redact."""
    hook, tool, there, taint = request.hook.value, request.tool, request.destination, plain(request.taint)
    said: dict[str, str] = {}
    sink = plain(there.clearance) if there else BOTTOM
    leaves = join(taint, plain(request.item)) if hook == "PRE_OUTPUT" else taint
    after = taint
    if hook in ENTRIES:
        after = join(taint, plain(request.item, plain(top)))
    if hook in CALLS and tool:
        after = join(taint, plain(tool.result))
    if hook in CALLS | {"POST_TOOL_RESPONSE", "SECRET_ACCESS"} and (not tool or tool.result is None):
        said["unknown_is_worst"] = "BLOCK"
    if hook == "PRE_OUTPUT":
        said |= {} if there else {"unknown_is_worst": "BLOCK"}
        said |= {} if flows(leaves, sink) else {"no_write_down": "BLOCK"}
    if hook in CALLS and tool:
        outward = tool.effect.value in {"write", "send"}
        sinks = [plain(tool.clearance)] if outward or tool.clearance else []
        sinks += [sink] if outward and there else []
        said |= {} if all(flows(taint, s) for s in sinks) else {"no_write_down": "BLOCK"}
        if tool.consequential and taint[2] and not request.approved:
            said["untrusted_cannot_command"] = "REQUIRE_APPROVAL"
    reads = hook in CALLS | ENTRIES | {"AGENT_INVOCATION"}
    if reads and not (flows(after, plain(request.ceiling)) and flows(after, plain(request.provider))):
        said["read_is_decided_before_it_happens"] = "BLOCK"
    shy = request.overshoot == "block" and hook in CALLS | ENTRIES
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
        if fits and not (rule.action.name == "REQUIRE_APPROVAL" and request.approved):
            said[rule.id] = rule.action.name
            redact |= {rule.pattern} if rule.pattern and rule.action.name == "REDACT" else set[str]()
    verdict = max(said.values(), key=ORDER.index, default="ALLOW")
    return verdict, set(said), taint if verdict == "BLOCK" else after, redact
