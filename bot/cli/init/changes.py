"""The changes of a configuration that answers ask for: pure, and none for an answer that is there already.

A section of `policy:` in the file replaces the shipped one. So a section that the file does not have is written with
the shipped entries, and none of them is lost.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final

from pydantic import JsonValue

from bot.cli.init.answers import Answers, GroupAnswer, ModelAnswer, PlatformAnswer, current_model, current_platform
from bot.cli.init.editing import SettingChange
from bot.config.model import OFFLINE, Config, ModelSettings
from bot.config.shipped import entries
from channels.console import NAME, OWNER
from policy.document.model import Document
from policy.request import Role

_POLICY: Final = "policy"


def changes(answers: Answers, config: Config, plain: JsonValue) -> tuple[SettingChange, ...]:
    """Return the changes that put answers into a configuration.

    `config` is the configuration in force, and `plain` are the values of its file, None without one.
    """
    model = current_model(config)
    found = list[SettingChange]()
    if answers.model != model:
        found += _model(answers.model, config.model)
        known = answers.model.name in config.policy.models
        if answers.model.name != OFFLINE and not (known and answers.model.clearance == _clearance(config, answers)):
            found += _entry(plain, "models", answers.model.name, {"clearance": answers.model.clearance})
    if answers.platform is not None:
        found += _platform(answers.platform, config, plain)
    if answers.owner and answers.owner not in _accounts(config.policy):
        found += _owner(answers.owner, config.policy, plain)
    if answers.group is not None:
        found += _group(answers.group, config.policy, plain)
    return tuple(found)


def _clearance(config: Config, answers: Answers) -> str:
    return str(config.policy.provider(answers.model.name))


def _model(answer: ModelAnswer, before: ModelSettings) -> Iterator[SettingChange]:
    if answer.name != before.name:
        yield SettingChange(("model", "name"), answer.name)
        # A model with settings has to be asked somewhere, and none is asked in two places.
        choices = [one for one in before.choices if one != answer.name]
        choices += [before.name] if before.name in before.providers else []
        for field, names, there in (
            ("choices", choices, before.choices),
            ("fallback", [one for one in before.fallback if one != answer.name], before.fallback),
        ):
            if names != [*there]:
                yield SettingChange(("model", field), list[JsonValue](names))
    said = before.provider(answer.name)
    wanted: dict[str, JsonValue] = {"base_url": answer.address or None, "key": answer.key or None}
    differs = {name: value for name, value in wanted.items() if value != getattr(said, name)}
    if answer.name in before.providers:
        yield from (SettingChange(("model", "providers", answer.name, name), value) for name, value in differs.items())
    elif differs:
        yield SettingChange(("model", "providers", answer.name), {**differs})


def _platform(answer: PlatformAnswer, config: Config, plain: JsonValue) -> Iterator[SettingChange]:
    name = answer.kind.value
    before = current_platform(config.channels, config.policy, answer.kind)
    said: dict[str, JsonValue] = {"token": answer.token}
    said |= {"app_token": answer.app_token} if answer.app_token else {}
    said |= {"base_url": answer.address} if answer.address else {}
    if before is None:
        yield SettingChange(("channels", name), {**said})
    else:
        known: dict[str, JsonValue] = {
            "token": before.token,
            "app_token": before.app_token,
            "base_url": before.address or None,
        }
        said.setdefault("base_url", None)
        yield from (SettingChange(("channels", name, key), value) for key, value in said.items() if known[key] != value)
    if name not in config.policy.channels:
        yield from _entry(plain, "channels", name, {"classification": answer.classification})
    elif before is None or before.classification != answer.classification:
        yield SettingChange((_POLICY, "channels", name, "classification"), answer.classification)


def _owner(account: str, policy: Document, plain: JsonValue) -> Iterator[SettingChange]:
    people = [name for name, one in policy.principals.items() if one.role is Role.OWNER]
    here = (name for name in people if f"{NAME}:{OWNER}" in policy.principals[name].accounts)
    name = next((*here, *people).__iter__(), "owner")
    if _section(plain, "principals") is None:
        shipped = _shipped("principals")
        accounts: list[JsonValue] = [*policy.principals[name].accounts, account]
        yield SettingChange((_POLICY, "principals"), {**shipped, name: {**shipped[name], "accounts": accounts}})
    elif name in policy.principals:
        yield SettingChange((_POLICY, "principals", name, "accounts"), account, adds=True)
    else:
        yield SettingChange((_POLICY, "principals", name), {"role": "owner", "clearance": "top", "accounts": [account]})


def _group(answer: GroupAnswer, policy: Document, plain: JsonValue) -> Iterator[SettingChange]:
    place = (answer.kind.value, answer.workspace, answer.chat)
    known = {(chat.channel, chat.workspace, chat.chat): name for name, chat in policy.chats.items()}
    if place in known:
        name = known[place]
        if str(policy.chats[name].classification) != answer.classification:
            yield SettingChange((_POLICY, "chats", name, "classification"), answer.classification)
        return
    name = next(name for number in count(1) if (name := f"group-{number}") not in policy.chats)
    entry: dict[str, JsonValue] = {"channel": answer.kind.value, "chat": answer.chat}
    entry |= {"workspace": answer.workspace} if answer.workspace else {}
    yield from _entry(plain, "chats", name, {**entry, "classification": answer.classification})


def _entry(plain: JsonValue, section: str, name: str, entry: dict[str, JsonValue]) -> Iterator[SettingChange]:
    """Yield the change that sets an entry of a section of the policy."""
    there = _section(plain, section)
    if there is None:
        yield SettingChange((_POLICY, section), {**_shipped(section), name: entry})
    elif isinstance(there, dict) and name in there:
        yield from (SettingChange((_POLICY, section, name, key), value) for key, value in entry.items())
    else:
        yield SettingChange((_POLICY, section, name), entry)


def _section(plain: JsonValue, name: str) -> JsonValue:
    """Return a section of the policy as the file has it, None if it does not have it."""
    policy = plain.get(_POLICY) if isinstance(plain, dict) else None
    return policy.get(name) if isinstance(policy, dict) else None


def _shipped(section: str) -> dict[str, dict[str, JsonValue]]:
    return {name: _plain(entry) for name, entry in entries(section).items()}


def _plain(entry: Mapping[str, object]) -> dict[str, JsonValue]:
    return {name: value if isinstance(value, list) else str(value) for name, value in entry.items()}


def _accounts(policy: Document) -> frozenset[str]:
    return frozenset(account for person in policy.principals.values() for account in person.accounts)
