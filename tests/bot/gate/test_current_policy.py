"""The policy in force: it is renewed where an access ends, and a newer one is never replaced by a renewal."""

from bot.gate.judge import CurrentPolicy, ReadyPolicy, Renewal
from tests.bot.kit import document


def test_a_renewal_replaces_no_policy_that_was_put_in_force_meanwhile() -> None:
    """Another thread may renew the policy during a reload."""
    old, newer = document(), document(blocked=["console:mallory"])
    current = CurrentPolicy(old)

    def made() -> ReadyPolicy:
        current.put_in_force(ReadyPolicy.of(newer))
        return ReadyPolicy.of(old)

    current.put_in_force(ReadyPolicy.of(old, Renewal(lambda: True, made)))
    assert current.document is newer
    assert current.document is newer
