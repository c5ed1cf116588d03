"""Law 9 at the gate: an approval lets through exactly the call people saw, and nothing that differs in anything.

A whole application cannot show every difference: a call's id never comes back with other arguments. So the gate is
asked directly, with an approval that is approved and in time.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bot import approvals
from bot.sessions.values import Approval, ApprovalState
from bot.standing import Call, Standing
from bot.tools.message import Message
from policy.decision import Verdict
from policy.labels import parse
from tests.bot.kit import DIRTY, document, gate, send, standing

_GUEST = {"channel": "console", "chat": "guest", "clearance": "INTERNAL~"}
_GATE = gate([Message()], document(recipients={"guest": _GUEST, "other": _GUEST}))
_CALL = send("hi")
_HERE = standing(DIRTY)

_other_calls = st.one_of(
    st.text(min_size=1, max_size=5).filter(lambda text: text != "hi").map(send),
    st.just(send("hi", "other")),
    st.just(replace(_CALL, id="c2")),
)
_other_places = st.one_of(
    st.sampled_from(("INTERNAL~", "INTERNAL{hr}~")).map(lambda label: replace(_HERE, taint=parse(label))),
    st.just(replace(_HERE, principal="eve")),
    st.just(replace(_HERE, sid="s2")),
    st.just(replace(_HERE, generation=_HERE.generation + 1)),
)


def _approved(now: int) -> Approval:
    return Approval(
        id="a",
        sid=_HERE.sid,
        generation=_HERE.generation,
        turn=_HERE.turn,
        call=_CALL.id,
        tool=_CALL.tool,
        binding=approvals.binding(_HERE, _CALL),
        label=_HERE.taint,
        principal=_HERE.principal,
        question={},
        rules=("untrusted_cannot_command",),
        expires_at=now,
        state=ApprovalState.APPROVED,
    )


@given(_other_calls | st.just(_CALL), _other_places | st.just(_HERE), st.integers(-2, 2))
def test_untrusted_cannot_command(call: Call, place: Standing, left: int) -> None:
    prepared = _GATE.prepare(place, call, (_approved(_HERE.now + left),))
    same = call == _CALL and place == _HERE and left > 0
    assert (prepared.decision.verdict is Verdict.ALLOW) == same
    assert prepared.use == ("a" if same else None)
