"""Which keys a process may bring to an installation, and which it must have."""

import pytest

from bot.core.errors import OtherKeysError
from bot.sessions.installation.keys import InstallationKeys, agreed


def keys(
    audit: str = "a", session: str = "s", vault: str = "v", retired: str = "", place: str = ""
) -> InstallationKeys:
    """Return keys by names of one letter, the newest first."""
    return InstallationKeys(tuple(audit), tuple(session), tuple(vault), frozenset(retired), place)


def test_the_first_process_brings_its_own() -> None:
    assert agreed(keys(place="p"), None) == keys(place="p")


@pytest.mark.parametrize(
    "own, known, after",
    [
        pytest.param(keys(), keys(), keys(), id="the same"),
        pytest.param(keys("ba"), keys("a"), keys("ba"), id="a newer audit key, and the older one"),
        pytest.param(keys(session="ts"), keys(session="s"), keys(session="ts"), id="a newer session key"),
        pytest.param(keys(vault="wv"), keys(vault="v"), keys(vault="wv"), id="a newer vault key"),
        pytest.param(keys(vault="w"), keys(vault="wv"), keys(vault="wv"), id="a vault key without the older one"),
        pytest.param(keys("cab"), keys("cba"), keys("cba"), id="older ones in another order"),
        pytest.param(keys("ba", retired="a"), keys("ba"), keys("ba", retired="a"), id="a key that was retired here"),
        pytest.param(keys("ab"), keys("a"), keys("ab"), id="an older audit key that the others do not know"),
    ],
)
def test_keys_that_agree(own: InstallationKeys, known: InstallationKeys, after: InstallationKeys) -> None:
    assert agreed(own, known) == after


@pytest.mark.parametrize(
    "own, known, told",
    [
        pytest.param(keys("b"), keys("a"), "the audit key `a` of this installation is not here", id="another"),
        pytest.param(keys("a"), keys("ba"), "the audit key `b` of this installation is not here", id="an older one"),
        pytest.param(keys("b"), keys("ba"), "the audit key `a` of this installation is not here", id="not all"),
        pytest.param(keys("ab"), keys("ba"), "the audit key `a` is used here", id="the older one first"),
        pytest.param(keys(session="t"), keys(session="ts"), "the session key `s`", id="no older session key"),
        pytest.param(keys(vault="v"), keys(vault="wv"), "the vault key `w`", id="an older vault key"),
        pytest.param(
            keys(vault="vw"), keys(vault="wv"), "the vault key `v` is used here", id="an older vault key first"
        ),
        pytest.param(keys("ba"), keys("ba", retired="a"), "the audit key `a` was retired", id="a retired one"),
    ],
)
def test_keys_that_do_not_agree(own: InstallationKeys, known: InstallationKeys, told: str) -> None:
    with pytest.raises(OtherKeysError, match=told) as raised:
        agreed(own, known)
    assert raised.value.next_step
