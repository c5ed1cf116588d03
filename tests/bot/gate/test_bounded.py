"""A bounded answer that a rule refuses or changes enters as the constant that any failure is."""

import pytest

from bot.delegation.structured_result import FAILED
from bot.sessions.background.delegation import BoundedAnswer, FieldKind, ResultField
from bot.tools.base import CallFacts, Result
from policy.labels import PUBLIC
from tests.bot.kit import Probe, call, document, gate, standing, unrecorded

pytestmark = pytest.mark.anyio

FIELDS = (ResultField("n", FieldKind.NUMBER, (), "0", "99", "1"),)


@pytest.mark.parametrize("action", ["REDACT", "BLOCK"])
@pytest.mark.parametrize("number, told", [(12, FAILED), (7, '{"n": 7}')])
async def test_an_answer_that_a_rule_finds_is_the_constant(number: int, told: str, action: str) -> None:
    rules = [{"id": "no-twelve", "hook": "POST_TOOL_RESPONSE", "pattern": "twelve", "action": action}]
    answer = BoundedAnswer("r1", 7_000, endorsed=True, beyond=False)
    probe = Probe(declared=CallFacts(returns=FIELDS), result=Result(f'{{"n": {number}}}', bounded=answer))
    one = gate([probe], document(patterns={"twelve": "12"}, rules=rules))
    prepared = one.calls.prepare(standing(), call("probe"))
    response = await one.results.respond(standing(), prepared, await one.run(standing(), prepared, unrecorded))
    assert (response.text, response.label, response.failed) == (told, PUBLIC, False)
    assert [one.text for one in response.endorsed] == [told]
    assert len(response.audit) == (1 if told != FAILED else 2)
