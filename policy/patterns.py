"""The built-in named patterns, as data: what each name looks for, in RE2 syntax.

Only texts stand here; `policy.redact` compiles and runs them, `policy.validate` decides whether a
candidate is what it looks like. Where only a part of a match is sensitive, group 1 is that part.
Formats of tokens are those their issuers publish. A repetition is bounded or keeps what it scans,
so that finding all matches stays linear.
"""

from typing import Final, Literal, NamedTuple

Check = Literal["assignment", "card", "iban", "ssn", "phone"]

SECRET: Final = "secret"
PAYMENT_CARD: Final = "payment-card"
IBAN: Final = "iban"
US_SSN: Final = "us-ssn"
EMAIL: Final = "email"
PHONE: Final = "phone"

NAMES: Final = (SECRET, PAYMENT_CARD, IBAN, US_SSN, EMAIL, PHONE)

# Digits and separators as people type and paste them: ASCII and full width; spaces, dashes, dots and
# the characters that do not show.
_DIGIT = r"[0-9\x{FF10}-\x{FF19}]"
_GAP = r"[ \t.\x{2D}\x{A0}\x{AD}\x{2000}-\x{2015}\x{202F}\x{2060}\x{2212}\x{3000}\x{FEFF}]"
_PHONE_GAP = r"[ \t().\-/\x{A0}\x{2000}-\x{2015}\x{202F}]"
_BEFORE = r"(?:\A|[^0-9])"
_AFTER = r"(?:[^0-9]|\z)"
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
_QUOTED = r"\"[^\"\n]{4,}\"|'[^'\n]{4,}'"


class Pattern(NamedTuple):
    """One look of a named pattern: the name it belongs to, its RE2 text, and how candidates are checked."""

    name: str
    text: str
    check: Check | None = None


BUILT_IN: Final = (
    # Amazon, GitHub, GitLab, Slack
    Pattern(SECRET, r"\b(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AIPA|ANPA|ANVA|AROA)[A-Z0-9]{16}\b"),
    Pattern(SECRET, rf"\b(?:gh[opsur]_[A-Za-z0-9]{{30,}}|github_pat_[A-Za-z0-9_]{{22,}}|glpat-{_T}{{20,}})"),
    Pattern(SECRET, r"\bxox[abceoprs](?:\.xox[abp])?-[A-Za-z0-9\-]{10,}|\bxapp-[0-9]-[A-Za-z0-9\-]{10,}"),
    Pattern(SECRET, r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/]{20,}"),
    # OpenAI, Anthropic and their like; Stripe; webhook signatures
    Pattern(SECRET, rf"\b(?:sk|pk|rk)-{_T}{{20,}}|\b[sr]k_(?:live|test)_[A-Za-z0-9]{{16,}}"),
    Pattern(SECRET, r"\bwhsec_[A-Za-z0-9+/]{24,}"),
    # Google, package registries, SendGrid, age, Telegram
    Pattern(SECRET, rf"\bAIza{_T}{{35}}|\bya29\.{_T}{{20,}}|\bGOCSPX-{_T}{{20,}}"),
    Pattern(SECRET, rf"\b(?:npm_[A-Za-z0-9]{{36}}|hf_[A-Za-z0-9]{{30,}}|pypi-{_T}{{50,}}|dop_v1_[a-f0-9]{{64}})"),
    Pattern(SECRET, rf"\bSG\.{_T}{{22}}\.{_T}{{43}}|\bAGE-SECRET-KEY-1[A-Z0-9]{{50,}}"),
    Pattern(SECRET, rf"\b[0-9]{{8,10}}:{_T}{{35}}"),
    # JSON web tokens, private keys also when cut off, credentials in headers and addresses
    Pattern(SECRET, rf"\beyJ{_T}{{8,}}\.{_T}{{8,}}(?:\.{_T}*)?"),
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
    Pattern(PAYMENT_CARD, rf"{_DIGIT}(?:{_GAP}{{0,3}}{_DIGIT}){{12,}}", "card"),
    Pattern(IBAN, rf"\b[A-Za-z]{{2}}[0-9]{{2}}(?:{_GAP}?[A-Za-z0-9]){{11,30}}", "iban"),
    Pattern(US_SSN, rf"{_BEFORE}([0-9]{{3}}{_GAP}[0-9]{{2}}{_GAP}[0-9]{{4}}){_AFTER}", "ssn"),
    Pattern(US_SSN, rf"(?i)\b(?:ssn|social security)[^0-9\n]{{0,20}}([0-9]{{9}}){_AFTER}", "ssn"),
    Pattern(EMAIL, rf"{_MAILBOX}(?:'?{_MAILBOX})*@(?:[{_LETTERS}0-9\-]+\.)+[{_LETTERS}]{{2,}}"),
    Pattern(PHONE, rf"(?:\+|\x{{FF0B}}|\b00)\(?[0-9](?:{_PHONE_GAP}{{0,3}}[0-9]){{6,14}}", "phone"),
    Pattern(
        PHONE,
        rf"{_BEFORE}({_AREA}{_PHONE_GAP}{{1,2}}[0-9]{{3}}{_PHONE_GAP}[0-9]{{4}}){_AFTER}",
        "phone",
    ),
)
