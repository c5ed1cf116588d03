"""What each built-in pattern finds, and what it leaves alone."""

import pytest

from policy.patterns import BUILT_IN, EMAIL, IBAN, NAMES, PAYMENT_CARD, PHONE, SECRET, US_SSN
from policy.redact import Redactor

REDACTOR = Redactor()
T35 = "AbCdEfGhIjKlMnOpQrStUvWxYz012345_-9"

FOUND = [
    (SECRET, "AKIA" + "ABCDEFGHIJKLMNOP"),
    (SECRET, "ghp_" + "a1" * 18),
    (SECRET, "github_pat_" + "a1_" * 10),
    (SECRET, "glpat-" + "a1-" * 8),
    (SECRET, "xoxb-" + "1234567890-abc"),
    (SECRET, "xapp-1-" + "A012345678-9"),
    (SECRET, "hooks.slack.com/services/" + "T00000000/B00000000/XXXX"),
    (SECRET, "sk-ant-api03-" + "a1_-" * 6),
    (SECRET, "sk-" + "A1" * 20),
    (SECRET, "sk_live_" + "A1" * 10),
    (SECRET, "whsec_" + "A1+/" * 7),
    (SECRET, "AIza" + T35),
    (SECRET, "npm_" + "a1" * 18),
    (SECRET, "hf_" + "aB" * 16),
    (SECRET, "SG." + "a" * 22 + "." + "b" * 43),
    (SECRET, "123456789:" + T35),
    (SECRET, "eyJhbGciOiJI." + "eyJzdWIiOiIx." + "c2lnbmF0dXJl"),
    (SECRET, "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE+/=\n-----END RSA PRIVATE KEY-----"),
    (PAYMENT_CARD, "4111111111111111"),
    (PAYMENT_CARD, "4111 1111 1111 1111"),
    (PAYMENT_CARD, "4111-1111-1111-1111"),
    (PAYMENT_CARD, "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"),
    (PAYMENT_CARD, "4111\u00a01111\u20111111 - 1111"),
    (PAYMENT_CARD, "\uff14" + "\uff11" * 15),
    (PAYMENT_CARD, "3782 822463 10005"),
    (PAYMENT_CARD, "5555555555554444"),
    (PAYMENT_CARD, "2223003122003222"),
    (PAYMENT_CARD, "6011111111111117"),
    (IBAN, "DE89370400440532013000"),
    (IBAN, "de89 3704 0044 0532 0130 00"),
    (IBAN, "GB29-NWBK-6016-1331-9268-19"),
    (US_SSN, "536-90-4399"),
    (US_SSN, "536 90 4399"),
    (EMAIL, "ann.o'hara+x@mail.example.co.uk"),
    (EMAIL, "é@exämple.org"),
    (PHONE, "+1 (202) 555-0143"),
    (PHONE, "+49 30 901820"),
    (PHONE, "00442079460958"),
    (PHONE, "(202) 555-0143"),
    (PHONE, "202.555.0143"),
]
PART = [
    (SECRET, "Authorization: Bearer {}", "abcdef0123456789abcdef"),
    (SECRET, "postgres://user:{}@db/x", "s3cret"),
    (SECRET, "password = '{}'", "correct horse"),
    (SECRET, 'api_key: "{}"', "abcd"),
    (SECRET, '{{"client_secret": "{}"}}', "abcdefgh"),
    (SECRET, "AWS_SECRET_ACCESS_KEY={}", "wJalrXUtnFEMI"),
    (SECRET, "the token: {} ok", "hunter2"),
    (US_SSN, "SSN: {}", "536904399"),
    (PAYMENT_CARD, "card {} 12/25 123", "4111 1111 1111 1111"),
    (PAYMENT_CARD, "12 {} 99", "4111 1111 1111 1111"),
    (IBAN, "pay {} and then rest", "DE89 3704 0044 0532 0130 00"),
    (PHONE, "call {} 12:30", "+44 20 7946 0958"),
    (EMAIL, "mail '{}'\u3002", "ann@example.org"),
    (SECRET, "cut off: {}", "-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNzaC1rZXk"),
]
LEFT = [
    "4111111111111112",
    "1700000000000",
    "411111111111111111111",
    "2024-01-02 10:20:30.123456",
    "20 21 22 23 24 25 26 27",
    "DE00370400440532013000",
    "AB12CD34EF56GH78",
    "000-12-3456",
    "1536-90-43991",
    "123456789",
    "ann@localhost",
    "@ann a@ @b.c",
    "+999 123",
    "001234567890123",
    "task-completed-successfully-today",
    "password: required",
    "password = <yours>",
    "api_key = ${API_KEY}",
    "token: ****************",
    "token: 5",
    "https://example.org:8080/a@b",
    "-----BEGIN PUBLIC KEY-----",
    "",
]


@pytest.mark.parametrize("name, text", FOUND)
@pytest.mark.parametrize("around", ["{}", "see {}.", "({})", "\n{}\n", "☃ {} ☃", "\ud800 {}\udc00"], ids=ascii)
def test_finds_all_of_it(name: str, text: str, around: str) -> None:
    assert name in REDACTOR.scan(around.format(text))
    redacted = REDACTOR.redact(around.format(text), (name,))
    assert ascii(redacted) == ascii(around.format(f"[redacted: {name}]"))


@pytest.mark.parametrize("name, around, text", PART)
def test_finds_the_part_that_matters(name: str, around: str, text: str) -> None:
    redacted = REDACTOR.redact(around.format(text), (name,))
    assert ascii(redacted) == ascii(around.format(f"[redacted: {name}]"))


@pytest.mark.parametrize("text", LEFT)
def test_leaves_alone_what_only_looks_like_it(text: str) -> None:
    assert REDACTOR.scan(text) == frozenset()
    assert REDACTOR.redact(text, NAMES) == text


def test_every_name_has_a_look_and_every_look_a_name() -> None:
    assert {pattern.name for pattern in BUILT_IN} == set(NAMES)
