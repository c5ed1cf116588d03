"""A bound or a handle that would have no effect is refused with its line, as its operator believes that it counts."""

from pathlib import Path

import pytest

from bot.config.load import load_config
from bot.core.errors import ConfigError
from bot.tools.catalogue import ARGUMENTS

CONFIG = """
mcp_servers:
  mail:
    command: mail-mcp
    tools:
      find:
        description: List mails.
        effect: read
        output:
          type: object
          fields: {id: {type: string, handle: mail}}
      draft:
        description: Write a draft.
        effect: write
        output:
          type: object
          fields: {id: {type: string, handle: MADE}}
      send:
        description: Send a mail.
        effect: send
        arguments:
          reply_to: {type: string, handle: HANDLE, optional: true}
          to: {type: array, items: {type: string, role: recipient}}
policy:
  mcp_servers:
    mail: {floor: INTERNAL}
  tools:
    mail__send:
      bounds: {BOUND}
"""


def load(folder: Path, *, handle: str = "mail", bound: str = "recipient: [ann]", made: str = "mail") -> str:
    """Return the refusal of a configuration, empty if it loads."""
    path = folder / "config.yaml"
    path.write_text(CONFIG.replace("HANDLE", handle).replace("BOUND", bound).replace("MADE", made), "utf-8")
    try:
        load_config(path, {}, ())
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "bound,told",
    [
        ("recipient: [ann]", ""),
        ("identifier: [mail-*]", ""),
        (
            "recipient: [ann], amount: {max: 9, min: 0}",
            "config.yaml:29: no argument of `mail__send` has the role `amount`, give it to one under `mcp_servers`",
        ),
        ("path: [a]", "config.yaml:29: no argument of `mail__send` has the role `path`, give it to one"),
    ],
)
def test_a_bound_needs_an_argument_of_its_role(tmp_path: Path, bound: str, told: str) -> None:
    found = load(tmp_path, bound=bound)
    assert told in found
    assert bool(told) == bool(found)


def test_a_handle_of_an_argument_needs_a_result_that_brings_it(tmp_path: Path) -> None:
    told = "config.yaml:22: no `output` of this server has the handle `mails`, did you mean `mail`?"
    assert told in load(tmp_path, handle="mails")


_TAKES = "names entries of a kind that `mail__send` does not take as"


@pytest.mark.parametrize(
    "bound,told",
    [
        ("identifier: [mail-*, mail-unheard]", ""),
        (
            "identifier: [mail-*, mial-unheard]",
            f"config.yaml:29: `mial-unheard` {_TAKES} `identifier`, it takes `mail`, did you mean `mail-unheard`?",
        ),
        ("identifier: [Mail-Unheard]", "it takes `mail`, did you mean `mail-unheard`?"),
        ("identifier: ['*-unheard']", "it takes `mail`, did you mean `mail-unheard`?"),
        ("identifier: [kalenderwoche-unheard]", f"`kalenderwoche-unheard` {_TAKES} `identifier`, it takes `mail`"),
        # An entry is no recipient here, as no argument with that role has the handle.
        ("recipient: [mail-unheard]", f"`mail-unheard` {_TAKES} `recipient`, give the `handle` to an argument"),
    ],
)
def test_a_bound_of_entries_names_a_kind_that_an_argument_takes(tmp_path: Path, bound: str, told: str) -> None:
    found = load(tmp_path, bound=bound)
    assert told in found
    assert bool(told) == bool(found)


@pytest.mark.parametrize(
    "made,told",
    [
        ("mail, made: true", ""),
        ("mail", "config.yaml:29: `mail-made-here` names objects that a call made, and no `output` of this server has"),
        ("file, made: true", "has `handle: mail` with `made: true`"),
    ],
)
def test_a_bound_of_made_objects_needs_a_call_that_makes_them(tmp_path: Path, made: str, told: str) -> None:
    found = load(tmp_path, bound="identifier: [mail-made-here]", made=made)
    assert told in found
    assert bool(told) == bool(found)


def test_a_tool_of_ours_takes_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("policy: {tools: {message: {bounds: {recipient: [guest, mail-unheard]}}}}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"config.yaml:1: `mail-unheard` names entries of a kind that `message`"):
        load_config(path, {}, ARGUMENTS)
