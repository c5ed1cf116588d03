"""A question to people: its words, and the chats of people who may answer it but are not in the conversation."""

import json
import re
from collections import Counter
from functools import partial
from types import MappingProxyType
from typing import Final

from bot.access import principals
from bot.access.approvals import ANSWER, OTHERS, RELEASE, answering, may_answer, may_be_granted, may_withdraw
from bot.core.invisible import fenced, in_code
from bot.gate.calls import MAY_BE_LOST
from bot.sessions.approvals import Approval
from bot.sessions.background.runs import Background, Charter, called
from bot.sessions.consents.released_calls import CallRelease, canonical
from channels.messages import Address, Button
from channels.port import Audience
from policy import explain
from policy.document.model import Document
from policy.document.programs import is_program
from policy.fixed import OUTCOME

OTHERS_DO: Final = "The person who asked has to answer, or another person who is entitled."
"""For other readers: who answers a call that the person who asked may answer."""

IN_OPERATORS_CHAT: Final = "They are asked in the operators' chat."
"""For readers of the conversation: where people are asked who have to answer in place of the asker."""

NOT_SHOWN: Final = "A text that it refers to is not shown, so the call is refused even once it is approved."
"""Stands in a question that does not show the text behind its call's references."""

NO_ENTRY: Final = (
    "The list has no entry at that place, so the call is refused even once it is approved. It is shorter, or its call "
    "failed."
)
"""Stands in a question about a call with such an entry, where its readers may know of that."""

MAY_BE_DONE: Final = (
    "This call was begun before and was interrupted: it may have taken effect already. Look first; if it did, "
    "approving it makes it happen again."
)
"""Stands in a question about a call with an unknown outcome."""

MAY_BE_REPEATED: Final = (
    "The last messages of this conversation may be lost, so this call may have taken effect already. Look first; if it "
    "did, approving it makes it happen again."
)
"""Stands in a question about a call after the store lost the newest events."""

VOUCHES: Final = (
    "Nobody has checked these values, so look where they come from. You vouch for them by a yes, for this call alone:"
)
"""Stands before the held values that would steer a call."""

ENDORSED: Final = "Others had a choice in these answers and results, and the call may follow from them:"
"""Stands before the bounded answers that a call may depend on."""

NEWEST: Final = 5
"""The most bounded answers that a question shows; the command `approvals` shows all of one call."""

_TIMES: Final = (("1 hour", "1h"), ("1 day", "1d"))
"""The times for which a button approves further calls, as people read and as they type them."""

_WORST: Final = "\nAn answer for longer allows, in the worst case: {worst}."

NO_FURTHER: Final = "It follows no redirect, and is not made again."
"""Stands in a question about a release: where it ends."""

_WHY: Final = MappingProxyType(
    {
        "untrusted_cannot_command": "a text that anybody may have written may have led to this call",
        "endorsed_cannot_steer": "others may have chosen a value of this call",
        OTHERS: "words of other people may have led to this call",
        "standing_work_is_approved": "it starts work that goes on by itself",
        RELEASE: "it tells more than the readers there may know",
    }
)
"""Why a fixed rule asks, for people who know nothing of labels."""

_HELD: Final = re.compile(r'\{"\$ref": "held-[a-z0-9]{16}(?:\.[0-9]+)?"\}')

_TASK: Final = "{name} asks you alone, `/agents log {run}` tells its task."
_GOAL: Final = "{name} asks you alone, `/runs log {run}` tells its goal."


def wording(document: Document, asked: tuple[Approval, ...], background: Background | None = None) -> str:
    """Return the question to people about the calls of one step; a held-back answer is not shown.

    `background` is the origin of a task or a run, which is then named as `/agents` or `/runs` lists it. The way to
    answer is not in the text: each channel shows the buttons of a question as they are pressed or typed there.
    """
    first = asked[0]
    if first.tool == ANSWER:
        rules = _rules(first)
        held = f"The answer is held back by {rules} until it is approved, the command `approvals` shows it."
        return "\n".join((held, *answers(document, asked)))
    several = (
        f"One answer is for all {len(asked)}, which then run once each, in this order. "
        "The command `approvals` tells how to answer them apart."
    )
    lines = [] if background is None else [_alone(background)]
    lines += [several] if len(asked) > 1 else []
    calls = map(partial(asked_about, document), asked)
    return "\n".join((*lines, *calls, *_endorsed(first, NEWEST), *answers(document, asked)))


def _alone(background: Background) -> str:
    words = _GOAL if isinstance(background, Charter) else _TASK
    return words.format(name=called(background).capitalize(), run=background.run)


def answers(document: Document, asked: tuple[Approval, ...]) -> list[str]:
    """Return who answers calls, in a line for each kind, where the person who asked may not answer themselves."""
    person = asked[0].principal
    others = [approval for approval in asked if not may_answer(document, approval, person)]
    whose = dict.fromkeys(_people(document, approval) for approval in others)
    return [f"Another person than `{person}` has to answer: {roles or 'nobody may any more'}." for roles in whose]


def _people(document: Document, approval: Approval) -> str:
    people = explain.people(answering(document, approval.rules))
    return f"{people} with the right `may_release`" if people and RELEASE in approval.rules else people


def buttons(
    document: Document, asked: tuple[Approval, ...], question: str, readers: frozenset[str] | None
) -> tuple[Button, ...]:
    """Return the commands that answer a question: only those that work for one of its readers.

    `readers` are the users who read it, None where they are unknown. The person who asked may withdraw it.
    """
    deny = f"/deny {question}"
    if readers is None or any(may_answer(document, approval, one) for approval in asked for one in readers):
        approve = f"/approve {question}"
        if all(worst(document, approval) is None for approval in asked):
            releases = any(approval.question.release is not None for approval in asked)
            return (Button("Release" if releases else "Approve", approve), Button("Deny", deny))
        longer = (Button(f"For {label}", f"{approve} until {time}") for label, time in _TIMES)
        conversation = Button("For this conversation", f"{approve} conversation")
        return (Button("Once", approve), conversation, *longer, Button("Deny", deny))
    mine = any(may_withdraw(approval, one) for approval in asked for one in readers)
    return (Button("Withdraw", deny),) if mine else ()


def operators(document: Document, asked: tuple[Approval, ...]) -> Address | None:
    """Return the operators' chat, if these calls may be asked about there: one of its readers has to be able to answer.

    None if the policy names none, or if the asker may answer alone. A background session asks its asker alone.
    """
    chat, first = document.operators, asked[0]
    if chat is None or first.alone or all(may_answer(document, approval, first.principal) for approval in asked):
        return None
    return Address(chat.channel, chat.chat, chat.workspace)


def may_be_answered(document: Document, asked: tuple[Approval, ...], readers: Audience) -> bool:
    """Say whether one of an address's known readers may answer all of these calls."""
    known = (document.principal(one.account) for one in readers.readers)
    people = [person[0] for person in known if person is not None]
    return any(all(may_answer(document, approval, person) for approval in asked) for person in people)


def places(document: Document, asked: tuple[Approval, ...], home: Address) -> tuple[Address, ...]:
    """Return the private chats of people who may answer; none if the asker may. Programs are not asked: they poll.

    The console may have no reader, so it is asked only if the policy names that chat.
    """

    def entitled(principal: str) -> bool:
        return all(may_answer(document, approval, principal) for approval in asked)

    if entitled(asked[0].principal):
        return ()
    named = {(entry.channel, entry.workspace, entry.chat) for entry in document.places}
    chats = (
        principals.private_chat(account)
        for name, person in document.principals.items()
        if not is_program(name) and entitled(name)
        for account in person.accounts
    )
    return tuple(
        chat
        for chat in dict.fromkeys(chats)
        if chat != home and (chat.channel != principals.CONSOLE or (chat.channel, chat.workspace, chat.chat) in named)
    )


def worst(document: Document, approval: Approval) -> str | None:
    """Return the worst case of an answer for further calls, None for a question that is answered once only."""
    scope = approval.question.scope
    return None if scope is None or not may_be_granted(document, scope.rules) else scope.worst


def asked_about(document: Document, approval: Approval) -> str:
    """Return the question about one call."""
    if approval.question.release is not None:
        return _released(approval, approval.question.release)
    # A channel may leave out invisible characters and marks of Markdown, and the call would not.
    arguments = fenced(json.dumps(dict(approval.question.arguments), ensure_ascii=False, indent=2))
    number = approval.id.partition("-")[2]
    return (
        f"{f'{number}. ' if number else ''}May `{approval.tool}` run with exactly these arguments?\n{arguments}\n"
        f"{_steers(approval)}{_vouches(approval)}{_why(approval)} It may hold data labelled {approval.label}."
        f"{_begun(approval)}{_others(approval)}{_withheld(approval)}{_longer(document, approval)}"
    )


def listed(document: Document, approval: Approval, *, whole: bool) -> str:
    """Return the lines of a listing below the arguments of a call, each with its line end.

    With `whole` it has all the bounded answers that the call may depend on, else the newest.
    """
    further = (_begun(approval), _others(approval), _withheld(approval), _longer(document, approval))
    lines = [*(line.removeprefix("\n") for line in further if line)]
    lines += _endorsed(approval, None if whole else NEWEST)
    return f"{_steers(approval)}{_vouches(approval)}{''.join(f'{line}{chr(10)}' for line in lines)}"


def _longer(document: Document, approval: Approval) -> str:
    most = worst(document, approval)
    return "" if most is None else _WORST.format(worst=most)


def _steers(approval: Approval) -> str:
    return f"Its effect: {approval.question.steers}.\n" if approval.question.steers else ""


def _vouches(approval: Approval) -> str:
    values = approval.question.vouches
    return f"{VOUCHES}\n{''.join(f'- {one}{chr(10)}' for one in values)}" if values else ""


def _released(approval: Approval, release: CallRelease) -> str:
    """Return the question about a call to be released: in one form, whole, as a piece of code."""
    number = approval.id.partition("-")[2]
    return (
        f"{f'{number}. ' if number else ''}May exactly this call be released, once? "
        f"It is labelled {approval.label}, and goes to `{release.sink}`, which is cleared for {release.clearance}. "
        f"Who reads there learns what it says.\n"
        f"```\n{canonical(approval.question.tool, approval.question.arguments)}\n```\n"
        f"{_why(approval)} {NO_FURTHER}{_others(approval)}{_withheld(approval)}"
    )


def _withheld(approval: Approval) -> str:
    told = NO_ENTRY if approval.question.missing else NOT_SHOWN
    return f"\n{told}" if approval.question.withheld else ""


def _begun(approval: Approval) -> str:
    doubt = MAY_BE_REPEATED if approval.question.interrupted == MAY_BE_LOST else MAY_BE_DONE
    return f"\n{doubt}" if OUTCOME in approval.rules else ""


def _others(approval: Approval) -> str:
    """Tell whose words the call may follow, by the names that readers of the conversation know."""
    people = approval.question.authors
    users = [f"`{person}`" for person in people if ":" not in person]
    if len(users) < len(people):
        users.append("people who are no users here")
    return (
        f"\nWords of {', '.join(users)} are in this conversation: run it only if you want it yourself." if users else ""
    )


def _endorsed(approval: Approval, most: int | None) -> list[str]:
    """Return the lines about the bounded answers that the calls may depend on: each once, at most the newest.

    A reference in one stands for a text that nobody was shown, so it says nothing about the call.
    """
    told = Counter(
        f"{in_code(_HELD.sub('…', one.text))}{'' if one.session == approval.sid else f' (session {one.session})'}"
        for one in approval.question.endorsed
    )
    lines = [f"- {text}{f', {count} times' if count > 1 else ''}" for text, count in told.items()]
    if not lines:
        return []
    left_out = 0 if most is None else max(0, len(lines) - most)
    more = [f"- {left_out} earlier ones, which the command `approvals` shows"] if left_out else []
    return [ENDORSED, *more, *lines[left_out:]]


def _why(approval: Approval) -> str:
    why = [_WHY[rule] for rule in approval.rules if rule in _WHY]
    return f"Asked by {_rules(approval)}{': ' if why else ''}{', and '.join(why)}."


def _rules(approval: Approval) -> str:
    return ", ".join(f"`{rule}`" for rule in approval.rules)
