"""The built-in named patterns, as data: the texts that each name matches, in RE2 syntax.

This module holds texts only; `policy.redaction.redactor` compiles and runs them, `policy.redaction.checks` decides
whether a candidate is genuine. They see folded texts (`policy.redaction.folding`), so digits, blanks, dashes and line
ends are of one kind. Where only a part of a match is sensitive, group 1 is that part. Formats of tokens are those their
issuers publish. Each repetition is bounded or keeps the text that it scans, so that finding all matches stays linear.

Grouped numbers are found with any of these separators: blanks, dots, dashes, line ends, slashes of both kinds,
underscores, bars and the formatting signs of chats. Numbers with a checksum, a preceding keyword or a fixed prefix may
have any grouping. Others must have the usual groups and stand alone, since lists, tables, paths and dates are full of
digits.
"""

import re
from typing import Final, Literal, NamedTuple

Check = Literal["assignment", "card", "iban", "ssn", "phone", "number", "broken"]

SECRET: Final = "secret"
PAYMENT_CARD: Final = "payment-card"
IBAN: Final = "iban"
US_SSN: Final = "us-ssn"
EMAIL: Final = "email"
PHONE: Final = "phone"

NAMES: Final = (SECRET, PAYMENT_CARD, IBAN, US_SSN, EMAIL, PHONE)

# The characters that people put between groups, and other possible separators.
_GAP = r"[ \t.\-]"
_WIDE = r"[ \t\n./\\_|*~`\-]"
_BREAK = rf"{_WIDE}{{1,8}}"
_PHONE_GAP = r"[ \t\n().\-/\\_|*~`]"
_BEFORE = r"(?:\A|[^0-9])"
_AFTER = r"(?:[^0-9]|\z)"
# Where grouped digits stand alone: no list, path or table continues before or behind them.
_ALONE = r"(?:\A[ \n]*|[^0-9A-Za-z./\\_|*~` \t\n\-]|[^0-9./\\_|*~` \t\n\-][ \t]|[^0-9\n]\n+)"
_ENDED = r"(?:[ \n]*\z|[^0-9A-Za-z./\\_|*~` \t\n\-]|[ \t][^0-9./\\_|*~` \t\n\-]|\.(?:\s|\z)|\n+[^0-9\n])"
_T = r"[A-Za-z0-9_\-]"
# Letters of the scripts in use, without the blocks of punctuation, symbols and surrogates between them.
_LETTERS = r"A-Za-z\x{C0}-\x{1FFF}\x{2C00}-\x{2DFF}\x{3040}-\x{D7FF}\x{F900}-\x{FDFF}"
_MAILBOX = rf"[{_LETTERS}0-9!#$%&*+.?^_~\-]"
_AREA = r"(?:\([2-9][0-9]{2}\)|[2-9][0-9]{2})"
_KEY_BODY = r"[A-Za-z0-9+/=\s\\,:()._]"
_ASSIGNED = (
    r"(?i)(?:api[_\-. ]?key|access[_\-. ]?key|secret(?:[_\-. ]?key)?|token|passw(?:or)?d|passphrase|pwd)"
    r"[\"'\]]{0,2}\s{0,8}"
)
# One character or class of a look.
_ONE: Final = re.compile(r"\[[^\]]*\]|\\.|[A-Za-z0-9_\-]")
_QUOTED = r"\"[^\"\n]{4,}\"|'[^'\n]{4,}'"


class Pattern(NamedTuple):
    """One look of a named pattern: the name it belongs to, its RE2 text, and how candidates are checked.

    A `broken` one is a text that `whole` matches once `cut`, a class of characters, is taken out of it.
    """

    name: str
    text: str
    check: Check | None = None
    whole: str = ""
    cut: str = ""


def _apart(text: str, gap: str) -> str:
    """Return a look with gaps behind each of its characters and classes."""
    return _ONE.sub(lambda one: f"{one[0]}{gap}*", text)


def _broken(start: str, rest: str, whole: str, cut: str) -> Pattern:
    """Return the look of a token that begins so and goes on with at least 16 of these, broken at some places."""
    return Pattern(SECRET, rf"\b(?:{_apart(start, cut)})(?:{cut}{{0,3}}{rest}){{16,}}", "broken", whole, cut)


_AWS = r"\b(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AIPA|ANPA|ANVA|AROA)[A-Z0-9]{16}\b"
_GIT = rf"\b(?:gh[opsur]_[A-Za-z0-9]{{30,}}|github_pat_[A-Za-z0-9_]{{22,}}|glpat-{_T}{{20,}})"
_SLACK = r"\bxox[abceoprs](?:\.xox[abp])?-[A-Za-z0-9\-]{10,}|\bxapp-[0-9]-[A-Za-z0-9\-]{10,}"
_KEYS = rf"\b(?:sk|pk|rk)-{_T}{{20,}}|\b[sr]k_(?:live|test)_[A-Za-z0-9]{{16,}}"
_GOOGLE = rf"\bAIza{_T}{{35}}|\bya29\.{_T}{{20,}}|\bGOCSPX-{_T}{{20,}}"
_REGISTRIES = rf"\b(?:npm_[A-Za-z0-9]{{36}}|hf_[A-Za-z0-9]{{30,}}|pypi-{_T}{{50,}}|dop_v1_[a-f0-9]{{64}})"
_SENDGRID = rf"\bSG\.{_T}{{22}}\.{_T}{{43}}"
_LOCKGATE = r"\blg_[a-z2-7]{16}_[a-z2-7]{16,}"
_AGE = r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}"
_JWT = rf"\beyJ{_T}{{8,}}\.{_T}{{8,}}(?:\.{_T}*)?"

BUILT_IN: Final = (
    # Amazon, GitHub, GitLab, Slack
    Pattern(SECRET, _AWS),
    Pattern(SECRET, _GIT),
    Pattern(SECRET, _SLACK),
    Pattern(SECRET, r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/]{20,}"),
    # OpenAI, Anthropic and their like; Stripe; webhook signatures
    Pattern(SECRET, _KEYS),
    Pattern(SECRET, r"\bwhsec_[A-Za-z0-9+/]{24,}"),
    # Tokens of Lockgate's own API
    Pattern(SECRET, _LOCKGATE),
    # Google, package registries, SendGrid, age, Telegram
    Pattern(SECRET, _GOOGLE),
    Pattern(SECRET, _REGISTRIES),
    Pattern(SECRET, _SENDGRID),
    Pattern(SECRET, _AGE),
    Pattern(SECRET, rf"\b[0-9]{{8,10}}:{_T}{{35}}"),
    # JSON web tokens, private keys also when cut off, credentials in headers and addresses
    Pattern(SECRET, _JWT),
    Pattern(
        SECRET,
        rf"-----BEGIN (?:[A-Z0-9]{{1,16}} ){{0,3}}PRIVATE KEY(?: BLOCK)?-----{_KEY_BODY}*(?:-{_KEY_BODY}+)*"
        r"(?:-----END [A-Z0-9 ]{0,60}-----)?",
    ),
    Pattern(SECRET, r"(?i)\b(?:bearer|basic)[ \t]{1,4}([A-Za-z0-9._~+/=\-]{16,})"),
    Pattern(SECRET, r"://[^\s/:@]*:([^\s/@]+)@"),
    # Assignments of anything called a key, token or password
    Pattern(SECRET, rf"{_ASSIGNED}(?::=|=>|==?)\s{{0,8}}({_QUOTED}|[^\s\"',;]{{6,}})", "assignment"),
    Pattern(SECRET, rf"{_ASSIGNED}:\s{{0,8}}({_QUOTED}|[^\s\"',;]*[0-9][^\s\"',;]*|[^\s\"',;]{{16,}})", "assignment"),
    # Tokens broken at line ends, slashes of both kinds or dots, as far as those are no part of them.
    _broken("AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AIPA|ANPA|ANVA|AROA", "[A-Z0-9]", _AWS, r"[\n/\\._\-]"),
    _broken("gh[opsur]_|github_pat_|glpat-", _T, _GIT, r"[\n/\\.]"),
    _broken(r"xox[abceoprs](?:\.xox[abp])?-|xapp-[0-9]-", _T, _SLACK, r"[\n/\\.]"),
    _broken("[sr]k_(?:live|test)_", "[A-Za-z0-9]", _KEYS, r"[\n/\\.]"),
    _broken("AIza|GOCSPX-", _T, _GOOGLE, r"[\n/\\.]"),
    _broken("npm_|hf_|pypi-|dop_v1_", _T, _REGISTRIES, r"[\n/\\.]"),
    _broken("AGE-SECRET-KEY-1", "[A-Z0-9]", _AGE, r"[\n/\\.]"),
    _broken("lg_", "[a-z2-7_]", _LOCKGATE, r"[\n/\\.]"),
    _broken("sk-|pk-|rk-", _T, _KEYS, r"\n"),
    _broken(r"SG\.", rf"\.?{_T}", _SENDGRID, r"\n"),
    _broken("eyJ", rf"\.?{_T}", _JWT, r"\n"),
    Pattern(PAYMENT_CARD, rf"[0-9](?:{_WIDE}*[0-9]){{12,}}", "card"),
    # Words of two letters stand before numbers everywhere, so only capitals are looked for apart from theirs.
    Pattern(
        IBAN,
        rf"\b(?:[A-Za-z]{{2}}[0-9]{{2}}|{_apart('[A-Z][A-Z][0-9][0-9]', _WIDE)})(?:{_WIDE}*[A-Za-z0-9]){{11,30}}",
        "iban",
    ),
    Pattern(US_SSN, rf"{_BEFORE}([0-9]{{3}}{_GAP}[0-9]{{2}}{_GAP}[0-9]{{4}}){_AFTER}", "ssn"),
    Pattern(US_SSN, rf"{_ALONE}([0-9]{{3}}{_BREAK}[0-9]{{2}}{_BREAK}[0-9]{{4}}){_ENDED}", "ssn"),
    Pattern(US_SSN, rf"(?i)\b(?:ssn|social security)[^0-9]{{0,20}}([0-9](?:{_WIDE}*[0-9]){{8}}){_AFTER}", "ssn"),
    Pattern(EMAIL, rf"{_MAILBOX}(?:'?{_MAILBOX})*@(?:[{_LETTERS}0-9\-]+\.)+[{_LETTERS}]{{2,}}"),
    Pattern(PHONE, rf"(?:\+[\n(/\\_|*~`]{{0,3}}|\b00\(?)[0-9](?:{_PHONE_GAP}*[0-9]){{6,14}}", "phone"),
    Pattern(PHONE, rf"{_BEFORE}({_AREA}[ \t().\-/]{{1,2}}[0-9]{{3}}[ \t().\-/][0-9]{{4}}){_AFTER}", "phone"),
    Pattern(PHONE, rf"{_ALONE}({_AREA}{_BREAK}[0-9]{{3}}{_BREAK}[0-9]{{4}}){_ENDED}", "number"),
)
