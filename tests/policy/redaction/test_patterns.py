"""What each built-in pattern finds, and what it leaves alone."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.rich_text import views
from policy.redaction.patterns import BUILT_IN, EMAIL, IBAN, NAMES, PAYMENT_CARD, PHONE, SECRET, US_SSN
from policy.redaction.redactor import Redactor

REDACTOR = Redactor()
T35 = "AbCdEfGhIjKlMnOpQrStUvWxYz012345_-9"

FOUND = [
    (SECRET, "AKIA" + "ABCDEFGHIJKLMNOP"),
    (SECRET, "ghp_" + "a1" * 18),
    (SECRET, "github_pat_" + "a1_" * 10),
    (SECRET, "lg_" + "a2b3" * 4 + "_" + "c4d5" * 13),
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
# Whatever people, or a program, put between the groups, and whatever characters they are written with.
GROUPED = [
    (PAYMENT_CARD, "4111/1111/1111/1111"),
    (PAYMENT_CARD, "4111_1111_1111_1111"),
    (PAYMENT_CARD, "4111\n1111\n1111\n1111"),
    (PAYMENT_CARD, r"4111\1111\1111\1111"),
    (PAYMENT_CARD, r"4\111111\\1111/111\11"),
    (PAYMENT_CARD, "4111\u22161111\u29f51111\uff3c1111"),
    (PAYMENT_CARD, "4111.1111/1111_1111"),
    (PAYMENT_CARD, "4111 | 1111 | 1111 | 1111"),
    (PAYMENT_CARD, "41111111\r\n11111111"),
    (PAYMENT_CARD, "3782/822463/10005"),
    (PAYMENT_CARD, "4/1/1/1/1/1/1/1/1/1/1/1/1/1/1/1"),
    (PAYMENT_CARD, "4111\u200b1111\u00ad1111\u20601111"),
    (PAYMENT_CARD, "\u0664\u0661\u0661\u0661" + " 1111" * 3),
    (PAYMENT_CARD, "4\u03361\u03361\u03361 1111 1111 1111"),
    (PAYMENT_CARD, "\U0001d7d2" + "\u2460" * 15),
    (PAYMENT_CARD, "4\x00111\x001111 1111 1111"),
    (PAYMENT_CARD, "4111\u00b71111\u22c51111\u30fb1111"),
    (PAYMENT_CARD, "4111\n1111\n11\n1111\n11"),
    (PAYMENT_CARD, "41/1/11/1111/11/111/11"),
    (PAYMENT_CARD, "4\n111111111111111"),
    (PAYMENT_CARD, "4111\n\n\n\n\n\n1111 | ~~ | 1111 ___ 11\n11"),
    (PAYMENT_CARD, "378/28/2246/3100/05"),
    (IBAN, "DE89/3704/0044/0532/0130/00"),
    (IBAN, "D\nE8/9370\n4\n\n\n\n\n0044|053_201300 | | | 0"),
    (IBAN, "DE89\n3704\n0044\n0532\n0130\n00"),
    (IBAN, "\uff24\uff258\uff19_3704_0044_0532_0130_00"),
    (IBAN, r"DE89\3704\0044\0532\0130\00"),
    (US_SSN, "536/90/4399"),
    (US_SSN, r"536\90\4399"),
    (US_SSN, "536\n90\n4399"),
    (US_SSN, "536_90_4399"),
    (US_SSN, "536  90 ** 4399"),
    (US_SSN, "536\u2013\u06f9\u06f0\u20134399"),
    (EMAIL, "ann\uff20exam\u200bple.org"),
    (PHONE, "+1 202_555_0143"),
    (PHONE, "\uff0b49\n30\n901820"),
    (PHONE, "202_555_0143"),
    (PHONE, "+1\n20\n\n\n\n\n2555/01|4\n3"),
    (PHONE, "202\n555\n0143"),
    (PHONE, r"202\555\0143"),
    (PHONE, r"+1\202\555\0143"),
    (SECRET, "AKIA" + "/IOSFODNN7" + "/EXAMPLE"),
    (SECRET, "AKIA" + r"\IOSFODNN7\EXAMPLE"),
    (SECRET, "ghp_" + "a1" * 9 + "\\" + "a1" * 9),
    (SECRET, "AKIA" + "_IOSF.ODNN-7EXA\nMPLE"),
    (SECRET, "AK\nIA/IOS" + "FODN\nN7EXAMPLE"),
    (SECRET, "gh\np_a" + "1a/1" * 9 + "\n" + "a1" * 9),
    (SECRET, "xo\nx/b-1234567" + "890.abc\nd1e2f3"),
    (SECRET, "\uff21KIA" + "IOSF\u200bODNN7EXAMPLE"),
    (SECRET, "ghp_" + "a1" * 9 + "\n" + "a1" * 9),
    (SECRET, "sk-" + "A1" * 8 + "\n" + "A1" * 8),
    (SECRET, "eyJhbGciOiJI\n." + "c3ViamVjdDox." + "c2lnbmF0dXJl"),
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
    (US_SSN, "the SSN is\n{}", "53\n690\n43/99"),
    (US_SSN, "social security {} of Ann", "5/3/6/9/0/4/3/9/9"),
    (PAYMENT_CARD, "{}\n12/25\n123", "4111\n1111\n11\n1111\n11"),
    (PAYMENT_CARD, "7\n{}\n17", "4111\n1111\n1111\n1111"),
    (PAYMENT_CARD, "card {} 12/25 123", "4111 1111 1111 1111"),
    (PAYMENT_CARD, "12 {} 99", "4111 1111 1111 1111"),
    (IBAN, "pay {} and then rest", "DE89 3704 0044 0532 0130 00"),
    (PHONE, "call {} 12:30", "+44 20 7946 0958"),
    (EMAIL, "mail '{}'\u3002", "ann@example.org"),
    (SECRET, "cut off: {}", "-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNzaC1rZXk"),
]
LEFT = [
    "4111/1111/1111/1112",
    "4111\n1111\n1111\n1111\n4111\n1111\n1111\n1112",
    "4111 1111/1111\n1111 41/11 1111/1111\n1113",
    "4500\n4700\n5200\n6100\n4111\n4410\n5003",
    "A\nB\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12",
    "the SSN list:\n- 1\n- 2",
    "7/4/1/1/1/1/1/1/1/1/1/1/1/1/1/1/1/9/9/9",
    "1536/90/4399",
    "a/536/90/4399",
    "536\n90\n4399\n17",
    "200_300_4000",
    "ASIA\nPACIFIC\nREVENUES",
    "ASIA-PACIFIC-REPORT-2026",
    "sk-SK/documents/2026/the-whole-of-it",
    "npm_config/registry/2026/packages",
    "task-\n12345678901234567890",
    "AKIA" + "/AB/CD",
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
    # The check digits of one of 24 characters, in a country where they have 22.
    "DE5629141777631706690743",
    "https://example.org:8080/a@b",
    "-----BEGIN PUBLIC KEY-----",
    "",
]


@pytest.mark.parametrize("name, text", FOUND + GROUPED)
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


@pytest.mark.parametrize(
    "name, text, gaps",
    [
        (PAYMENT_CARD, "4111111111111111", "\n/\\|_ .-*~`"),
        (PAYMENT_CARD, "378282246310005", "\n/\\|_ .-*~`"),
        (PAYMENT_CARD, "6011111111111117", "\n/\\|_ .-*~`"),
        (IBAN, "DE89370400440532013000", "\n/\\|_ .-*~`"),
        (PHONE, "+12025550143", "\n/\\|_*~`("),
        (SECRET, "AKIA" + "IOSFODNN7EXAMPLE", "\n/\\."),
        (SECRET, "ghp_" + "a1B2c" * 6, "\n/\\."),
        (SECRET, "lg_" + "a2b3" * 4 + "_" + "c4d5" * 4, "\n/\\."),
    ],
)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_groups_of_any_length_are_found_whatever_is_between(
    name: str, text: str, gaps: str, data: st.DataObject
) -> None:
    gap = st.text(gaps, max_size=3)
    written = text[0] + "".join(data.draw(gap) + char for char in text[1:])
    assert REDACTOR.redact(f"see:\n{written}\n(there)", (name,)) == f"see:\n[redacted: {name}]\n(there)"


@pytest.mark.parametrize("most, length", [(99, 20), (999, 30), (9999, 20), (99999, 20)])
@pytest.mark.parametrize("between", ["\n", "/", "\\", " | "])
def test_few_lists_of_numbers_seem_to_hold_a_card(most: int, length: int, between: str) -> None:
    # of random digits three in a hundred pass for a card, so without more ado half of these lists would
    random = Random(most)  # noqa: S311 - lists to look at, no secret
    lists = [between.join(str(random.randint(0, most)) for _ in range(length)) for _ in range(500)]
    assert sum(PAYMENT_CARD in REDACTOR.scan(text) for text in lists) <= 5


def test_every_name_has_a_look_and_every_look_a_name() -> None:
    assert {pattern.name for pattern in BUILT_IN} == set(NAMES)


ORDINARY = """
The sprint of 2026-03-14 ended at 17:30; 41 of 52 tickets are done, 3 moved (see 2025/12/31 and 31.12.2025).
Version 10.4.1111.2 follows 9.12.33, built from refs/2026/03/14/1111 on 192.168.10.24 and 10.0.0.1/24.
Prices: 4,500.00 / 4,700.00 / 5,200.00 EUR; 1.240.000 in all; a third of 12/25 is 0.16.
/var/log/2026/04/15/4111_1234_99.log  C:\\data\\2026_01_02\\536-file_90.txt  IMG_20260314_101112.jpg
2026-03-14T10:20:30.123456Z 1710411630123 550e8400-e29b-41d4-a716-446655440000

4500
4700
5200
6100
4111

| item | count | price | sum |
|---|---|---|---|
| 4010 | 2 | 4500 | 9000 |
| 4020 | 12 | 4700 | 56400 |
| 4030 | 7 | 5200 | 36400 |

- 12
- 45
- 4399

1. one
2. two
3/4 cup of it, 1/2 of that, 24/7, A4/A5, DE/FR/IT, ISO 9001/14001, RFC 2119/8174.
AT 10:30 the IT21 group met in RO45 with some of the people who were there before and after.
snake_case_name_2026, task_12_of_24, sk-learn, ghp, AIDA_2026_CRUISES_HAMBURG, npm_lifecycle_script=build.
fetch origin/main 0123abc..4567def; +12 -34 lines; 202 accepted / 404 missing / 5003 done; 100-200-3000 m.
"""


def test_ordinary_text_holds_nothing() -> None:
    assert REDACTOR.scan(ORDINARY) == frozenset()
    for view in views(ORDINARY):
        assert REDACTOR.scan(view) == frozenset()
