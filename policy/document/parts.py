"""Digests of parts of a policy, by which a recorded decision tells the parts of the policy that decided it.

A rule's fingerprint covers the facts that it looks at, and neither its action nor its message. Two rules of one
fingerprint apply to the same requests.
"""

from collections.abc import Mapping

from policy.conditions.variables import HAS, flag
from policy.decision import PolicyParts
from policy.document.model import Document, short_digest
from policy.rules import Rule


def parts_of(document: Document) -> PolicyParts:
    """Return the digests of the parts of a policy."""
    places = (
        document.compartments,
        document.principals,
        document.groups,
        document.blocked,
        document.ended,
        document.channels,
        document.chats,
        document.recipients,
        document.folders,
        document.mcp_servers,
        document.tools,
        document.hold,
    )
    # As a list would lose its order, each part is named by its place.
    numbered = {str(number): short_digest(part) for number, part in enumerate(places)}
    return PolicyParts(short_digest(fingerprints(document)), short_digest(numbered), short_digest(_labels(document)))


def fingerprints(document: Document) -> Mapping[str, str]:
    """Return the fingerprint of each configured rule, by its id."""
    return {rule.id: _fingerprint(document, rule) for rule in document.all_rules}


def _fingerprint(document: Document, rule: Rule) -> str:
    asked = set[str]() if rule.when is None else {name for name, _ in rule.when.variables if name.startswith(HAS)}
    looked = {name: text for name, text in document.patterns.items() if name == rule.pattern or flag(name) in asked}
    selects = {
        "hook": rule.hook,
        "tools": rule.tools,
        "channels": rule.channels,
        "levels": rule.levels,
        "untrusted": rule.untrusted,
        "pattern": rule.pattern,
        "patterns": looked,
        "schedule": rule.schedule,
        "when": rule.when,
        "code": "" if rule.test is None else document.code.digest,
    }
    return short_digest(selects)


def _labels(document: Document) -> dict[str, object]:
    """Return the parts of a policy that give data their labels."""
    return {
        "channels": {name: entry.inbound for name, entry in document.channels.items()},
        "chats": {
            name: f"{chat.channel} {chat.workspace} {chat.chat} {chat.classification} {chat.inbound}"
            for name, chat in document.chats.items()
        },
        "folders": {name: entry.label for name, entry in document.folders.items()},
        "servers": {name: entry.label for name, entry in document.mcp_servers.items()},
        "tools": {
            name: entry.result if entry.results is None else (entry.result, entry.results)
            for name, entry in document.tools.items()
        },
    }
