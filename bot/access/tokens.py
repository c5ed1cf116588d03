"""Authentication of programs by their tokens: one path for every refusal, regardless of its reason.

The store has a keyed digest of each token, and only valid tokens are known here. An unknown text, a wrong secret, and
an expired or revoked token are alike: their digest is not among those. Digests are compared and never secrets, so the
time of a comparison reveals nothing.

Await `PolicyReloader.current_now` before: then a token that any process revoked is invalid in this one, too.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
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
"""The beginning of every token's text, so that people and scanners recognise one."""

_UNKNOWN: Final = ApiToken("", "", Scope.READ, PUBLIC, "", created_at=0, expires_at=1, created_by="")
"""Stands for every text that is not a valid token: it belongs to no program, and has expired."""


def token_text(token_id: str, secret: str) -> str:
    """Return the text of a token, as its program has it."""
    return f"{PREFIX}_{token_id}_{secret}"


def address_of(name: str, thread: str = "") -> Address:
    """Return the home address of a program's sessions, one thread for each."""
    return Address(API, name, thread=thread)


def program(token: ApiToken) -> Program:
    """Return the principal of a token's program."""
    return Program(token.name, Role.ADMIN if token.scope is Scope.ADMIN else Role.MEMBER, token.clearance)


def own_words(document: Document, name: str, role: Role = Role.MEMBER) -> Label:
    """Return the label of a program's own words, which is the least label of its sessions."""
    return labelling.inbound(document, address_of(name), role, authored=True)


def unsighted(document: Document, tokens: Iterable[ApiToken]) -> tuple[str, ...]:
    """Return the programs whose tokens are not cleared for their own words: they see none of their sessions."""
    found, known = list[str](), list(tokens)
    policy = with_programs(document, map(program, known))
    for token in known:
        reader = labelling.expected(policy, address_of(token.name)).clearance or PUBLIC
        if not own_words(policy, token.name, program(token).role).flows_to(reader):
            found.append(token.name)
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class LiveTokens:
    """The valid tokens at a moment; `lapses` is when the first expires, in ms on the store's clock, 0 for never."""

    by_name: Mapping[str, ApiToken]
    by_digest: Mapping[str, ApiToken]
    lapses: int

    @staticmethod
    def of(tokens: Iterable[ApiToken], now: int) -> "LiveTokens":
        """Return the tokens that are valid at `now`, in milliseconds on the store's clock."""
        live = [token for token in tokens if token.live(now)]
        return LiveTokens(
            MappingProxyType({token.name: token for token in live}),
            MappingProxyType({token.digest: token for token in live}),
            min((token.expires_at for token in live if token.expires_at), default=0),
        )

    def lapsed(self, now: int) -> bool:
        """Say whether one of them has expired."""
        return 0 < self.lapses <= now

    def programs(self) -> tuple[Program, ...]:
        """Return the principals of their programs."""
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
        """The address of the program; each of its sessions has a thread there."""
        return address_of(self.name)

    def may(self, scope: Scope) -> bool:
        """Say whether its token has a scope."""
        return self.token.scope.covers(scope)


class Tokens:
    """Recognises programs by the policy and tokens in force in this process.

    Args:
        document: Returns the policy in force.
        live: Returns the valid tokens.
        now: Returns the time, in milliseconds on the store's clock.
        keys: Returns the keys of the digests, the newest first.
        follow: Looks for a newer key.
    """

    def __init__(
        self,
        document: Callable[[], Document],
        live: Callable[[], LiveTokens],
        *,
        now: Callable[[], int],
        keys: Callable[[], tuple[bytes, ...]],
        follow: Callable[[], Awaitable[None]],
    ) -> None:
        self._document, self._live = document, live
        self._now, self._keys, self.follow = now, keys, follow

    def authenticate(self, text: str) -> ApiCaller | None:
        """Return the program of a token's text, None for a text that is not a valid token."""
        # A token that was made under an older key is valid under it; for any text the work is the same.
        known = self._live().by_digest
        found = [known[one] for one in (token_digest(key, text) for key in self._keys()) if one in known]
        return self._caller(found[0] if found else _UNKNOWN)

    def digest(self, text: str) -> str:
        """Return the digest of a new token's text, under the newest key."""
        return token_digest(self._keys()[0], text)

    def still(self, caller: ApiCaller) -> ApiCaller | None:
        """Return a program as it is now, None if the token that it showed is not valid any more.

        A response that lasts longer than a request, such as a stream, calls this before it sends more.
        """
        now = self.of(caller.name)
        return now if now is not None and now.token.id == caller.token.id else None

    def of(self, name: str) -> ApiCaller | None:
        """Return a program by its name, None if it has no valid token: a webhook outlives a rotation."""
        return self._caller(self._live().by_name.get(name, _UNKNOWN))

    def reader(self, caller: ApiCaller) -> Label:
        """Return the clearance of a program, met with that of its address."""
        return labelling.expected(self._document(), caller.address).clearance or PUBLIC

    def _caller(self, token: ApiToken) -> ApiCaller | None:
        found = authorize(self._document(), program(token).account, Ingress.API)
        live = token.live(self._now())
        return None if isinstance(found, Refusal) or not live else ApiCaller(token, found)
