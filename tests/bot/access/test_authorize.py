from itertools import product

import pytest

from bot.access.authorize import Caller, Ingress, Refusal, at_least, authorize
from policy.request import Role
from tests.bot.kit import INTERNAL, TOP, document
from tests.people import principal

PEOPLE = document(
    principals={
        "owner": principal("console:owner"),
        "gil": principal("console:gil", role="guest", clearance="INTERNAL"),
    }
)


@pytest.mark.parametrize("ingress", list(Ingress))
def test_every_kind_of_ingress_passes_the_same_check(ingress: Ingress) -> None:
    assert authorize(PEOPLE, "console:owner", ingress) == Caller("owner", Role.OWNER, TOP, ingress)
    assert authorize(PEOPLE, "console:mallory", ingress) == Refusal(
        "console:mallory", ingress, "no principal has this account"
    )
    assert authorize(PEOPLE, "console:gil", ingress) == Refusal("console:gil", ingress, "role guest is below member")


def test_a_role_that_suffices_is_let_in() -> None:
    found = authorize(PEOPLE, "console:gil", Ingress.COMMAND, Role.GUEST)
    assert found == Caller("gil", Role.GUEST, INTERNAL, Ingress.COMMAND)


def test_nobody_is_let_in_by_an_empty_list() -> None:
    assert isinstance(authorize(document(principals={}), "console:owner", Ingress.TEXT), Refusal)


@pytest.mark.parametrize("account", ["owner", "console:Owner", "console:owner ", "", "CONSOLE:owner"])
def test_accounts_are_compared_verbatim(account: str) -> None:
    assert isinstance(authorize(PEOPLE, account, Ingress.TEXT, Role.STRANGER), Refusal)


def test_roles_include_those_below_them() -> None:
    order = list(Role)
    for role, needed in product(order, order):
        assert at_least(role, needed) is (order.index(role) <= order.index(needed))
