"""Each fixed rule is listed under the hooks it judges, under a name that no configured rule may take."""

from dataclasses import replace

import pytest

from policy.fixed import LAWS, NAMES
from policy.labels import PUBLIC, Label, parse
from policy.request import Destination, Effect, Hook, Request, Role, Tool
from tests.policy.strategies import NOW, TOP, engine

CONFIDENTIAL = parse("CONFIDENTIAL")
BASE = Request(Hook.PRE_TOOL_CALL, "owner", Role.OWNER, "console", CONFIDENTIAL, TOP, TOP, TOP)


def test_every_hook_is_judged_and_every_name_is_taken() -> None:
    assert set(LAWS) == set(Hook)
    request = replace(BASE, tool=Tool("message", Effect.SEND, PUBLIC))
    heard = {law(request, PUBLIC, PUBLIC).rule for _, laws in LAWS.values() for law in laws}
    assert heard | {"fails_closed"} == NAMES


@pytest.mark.parametrize(
    "effect, clearance, rules",
    [
        (Effect.NONE, None, ()),
        (Effect.READ, None, ()),
        (Effect.READ, PUBLIC, ("no_write_down",)),
        (Effect.WRITE, None, ("no_write_down",)),
        (Effect.SEND, None, ("no_write_down",)),
        (Effect.SEND, CONFIDENTIAL, ()),
    ],
)
def test_a_sink_is_what_writes_or_sends_or_has_a_clearance(
    effect: Effect, clearance: Label | None, rules: tuple[str, ...]
) -> None:
    call = replace(BASE, tool=Tool("message", effect, PUBLIC, clearance))
    assert engine().decide(call, NOW).rules == rules


def test_the_destination_is_a_sink_of_what_sends() -> None:
    there = Destination("console:guest", "console", PUBLIC)
    call = replace(BASE, tool=Tool("message", Effect.SEND, PUBLIC, TOP), destination=there)
    assert engine().decide(call, NOW).rules == ("no_write_down",)
    assert engine().decide(replace(call, destination=replace(there, clearance=CONFIDENTIAL)), NOW).rules == ()
    assert engine().decide(replace(call, tool=Tool("read_file", Effect.READ, PUBLIC)), NOW).rules == ()


def test_integrity_alone_stops_no_flow() -> None:
    there = Destination("console:guest", "console", PUBLIC)
    output = replace(BASE, hook=Hook.PRE_OUTPUT, taint=parse("PUBLIC~"), destination=there)
    assert engine().decide(output, NOW).rules == ()
