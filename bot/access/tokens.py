"""Who a program is that shows a token: one path for every refusal, whatever is wrong with the text.

The store has a keyed digest of each token, and only the tokens that count now are known here. An unknown text, a wrong
secret, and a token that expired or was revoked are alike: their digest is not among those. A digest is compared and
never the secret, so how long that takes tells nothing of one.

Await `PolicyReloader.current_now` before: then a token that was revoked in any process counts no more in this one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bot.access import labelling
from bot.access.authorize import Caller, Ingress, Refusal, authorize
from bot.core.ids import token_digest
from bot.sessions.api_tokens import ApiToken, Scope
from channels.messages import Address
from policy.document.model import Document
from policy.document.programs import Program, with_programs
from policy.document.reading import API
from policy.labels import PUBLIC, Label
from policy.request import Role

PREFIX: Final = "lg"
"""What the text of every token begins with, so that people and scanners know one when they see it."""

_UNKNOWN: Final = ApiToken("", "", Scope.READ, PUBLIC, "", created_at=0, expires_at=1, created_by="")
"""Stands for every text that is no token which counts: it belongs to no program, and its time is over."""


def token_text(token_id: str, secret: str) -> str:
    """Return a token as its program has it."""
    return f"{PREFIX}_{token_id}_{secret}"


def address_of(name: str, thread: str = "") -> Address:
    """Return where a program's sessions have their home, in a thread each."""
    return Address(API, name, thread=thread)


def program(token: ApiToken) -> Program:
    """Return the principal that a token makes of its program."""
    return Program(token.name, Role.ADMIN if token.scope is Scope.ADMIN else Role.MEMBER, token.clearance)


def own_words(document: Document, name: str, role: Role = Role.MEMBER) -> Label:
    """Return the label of what a program says: its sessions have at least that."""
    return labelling.inbound(document, address_of(name), role, authored=True)


def unsighted(document: Document, tokens: Iterable[ApiToken]) -> tuple[str, ...]:
    """Return the programs of tokens that are not cleared for their own words: they see none of their sessions."""
    found, known = list[str](), list(tokens)
    policy = with_programs(document, map(program, known))
    for token in known:
        reader = labelling.expected(policy, address_of(token.name)).clearance or PUBLIC
        if not own_words(policy, token.name, program(token).role).flows_to(reader):
            found.append(token.name)
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class LiveTokens:
    """The tokens that count at a moment; `lapses` is when the first of them expires, 0 for never."""

    by_name: Mapping[str, ApiToken]
    by_digest: Mapping[str, ApiToken]
    lapses: int

    @staticmethod
    def of(tokens: Iterable[ApiToken], now: int) -> "LiveTokens":
        """Return those that count now, of the store's clock."""
        live = [token for token in tokens if token.live(now)]
        return LiveTokens(
            MappingProxyType({token.name: token for token in live}),
            MappingProxyType({token.digest: token for token in live}),
            min((token.expires_at for token in live if token.expires_at), default=0),
        )

    def lapsed(self, now: int) -> bool:
        """Say whether one of them counts no more."""
        return 0 < self.lapses <= now

    def programs(self) -> tuple[Program, ...]:
        """Return the principals that they make."""
        return tuple(map(program, self.by_name.values()))


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """A program recognised by its token."""

    token: ApiToken
    caller: Caller

    @property
    def name(self) -> str:
        """Its name, without a prefix."""
        return self.token.name

    @property
    def principal(self) -> str:
        """Its name as a principal."""
        return self.caller.principal

    @property
    def address(self) -> Address:
        """Where it is spoken to; each of its sessions has a thread there."""
        return address_of(self.name)

    def may(self, scope: Scope) -> bool:
        """Say whether its token is for that."""
        return self.token.scope.covers(scope)


class Tokens:
    """Recognises programs by what is in force in this process.

    `now` is the time on the store's clock, `key` that of the digests.
    """

    def __init__(
        self, document: Callable[[], Document], live: Callable[[], LiveTokens], *, now: Callable[[], int], key: bytes
    ) -> None:
        self._document, self._live = document, live
        self._now, self._key = now, key

    def authenticate(self, text: str) -> ApiCaller | None:
        """Return whose token this is, None for a text that is none which counts now."""
        return self._caller(self._live().by_digest.get(token_digest(self._key, text), _UNKNOWN))

    def still(self, caller: ApiCaller) -> ApiCaller | None:
        """Return a program as it is now, None if the token that it showed counts no more.

        What lasts longer than a request, as a stream does, asks again before it tells more.
        """
        now = self.of(caller.name)
        return now if now is not None and now.token.id == caller.token.id else None

    def of(self, name: str) -> ApiCaller | None:
        """Return a program that showed no token, None if it has none that counts now: a webhook outlives a rotation."""
        return self._caller(self._live().by_name.get(name, _UNKNOWN))

    def reader(self, caller: ApiCaller) -> Label:
        """Return what a program may read: its clearance, and no more than its address is cleared for."""
        return labelling.expected(self._document(), caller.address).clearance or PUBLIC

    def _caller(self, token: ApiToken) -> ApiCaller | None:
        found = authorize(self._document(), program(token).account, Ingress.API)
        live = token.live(self._now())
        return None if isinstance(found, Refusal) or not live else ApiCaller(token, found)
