"""The facts that an audit row keeps of a request."""

from bot.gate import origins
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC
from policy.request import Destination, Hook, ListedReaders, Request, Role
from tests.bot.kit import TOP

REQUEST = Request(Hook.PRE_OUTPUT, "owner", Role.OWNER, "console", PUBLIC, TOP, TOP, TOP)


def test_a_request_without_an_origin_stays_as_it_is() -> None:
    assert origins.asked_of(REQUEST, model="offline") is REQUEST


def test_many_readers_are_told_by_their_clearance() -> None:
    many = ListedReaders((), complete=True, many=True)
    there = Destination("console:square", "console", PUBLIC, shared=True, listed=many)
    request = Request(Hook.PRE_OUTPUT, "owner", Role.OWNER, "console", PUBLIC, TOP, TOP, TOP, destination=there)
    told = origins.facts(Decision(Verdict.ALLOW, (), PUBLIC, PUBLIC, requests=(request,)))
    assert isinstance(told, dict)
    assert told["asked"] is not None
    assert "'many': True" in str(told["asked"])
