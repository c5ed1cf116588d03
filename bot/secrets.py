"""Secrets by reference: config.yaml names them, and their values come from the environment or files.

A model, the log and the audit only ever hold the reference `${secret:NAME}`. A tool that accepts one declares it in
`CallFacts.secrets` and asks `ToolServices.reveal` while it runs. The gate decides (hook SECRET_ACCESS), the decision is
audited, and only then the value is put in its place, here. Every result passes `scrub` in the gate. No decision is made
here; `grants` only reads the configuration.
"""

import base64
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, quote_plus

from bot.config.references import REFERENCE
from bot.config.secrets import SecretSettings
from bot.core.errors import OperatorError

SHORTEST: Final = 8
"""The least characters of a value: a shorter one would be found in unrelated texts."""

_LONGEST: Final = 64_000
_CODE: Final = re.compile("%[0-9A-F]{2}")
_MARKDOWN: Final = re.compile(r"([*_])")


@dataclass(frozen=True, slots=True)
class GrantedSecret:
    """A secret: its value, and the tools and hosts that configuration grants it to."""

    value: str = field(repr=False)
    tools: frozenset[str]
    hosts: frozenset[str]


class Keyring:
    """The secrets of an installation."""

    def __init__(self, secrets: Mapping[str, GrantedSecret] = MappingProxyType({})) -> None:
        self._secrets = dict(secrets)
        self._names = {form: name for name, held in secrets.items() for form in _forms(held.value)}
        forms = sorted(self._names, key=len, reverse=True)
        self._found = re.compile("|".join(map(re.escape, forms))) if forms else None
        self.longest = max(map(len, forms), default=0)
        """The most characters of a value in any of its written forms."""

    @staticmethod
    def load(settings: Mapping[str, SecretSettings], environment: Mapping[str, str], folder: Path) -> "Keyring":
        """Read every configured secret; `folder` is the base of relative paths.

        It reads files: call it from a thread.

        Raises OperatorError: values are missing, empty or unusable; the error names all of them and shows none.
        """
        held, problems = dict[str, GrantedSecret](), list[str]()
        for name, one in settings.items():
            try:
                value = _value(one, environment, folder)
            except _UnusableError as error:
                problems.append(f"secret `{name}`: {error}")
            else:
                held[name] = GrantedSecret(value, frozenset(one.tools), frozenset(one.hosts))
        if problems:
            raise OperatorError("; ".join(problems), next_step="give the value there, or take it out of `secrets`")
        return Keyring(held)

    def grants(self, name: str, tool: str, host: str) -> bool:
        """Say whether configuration lets a tool use a secret for a host.

        Args:
            name: The secret's name in `secrets`.
            tool: The tool's name.
            host: A name or address in lower case, with `:port` for any port but 443. It is empty for a use without a
                host, such as the environment of a process that the tool starts.
        """
        held = self._secrets.get(name)
        return held is not None and tool in held.tools and (not host or host in held.hosts)

    def credential(self, name: str) -> str | None:
        """Return the value of a secret that configuration names as the key of an agent's models, None for none."""
        held = self._secrets.get(name)
        return None if held is None else held.value

    def filled(self, text: str) -> str:
        """Return a text with values in place of references; their use was decided and is in the audit already."""
        return REFERENCE.sub(lambda found: self._secrets[found[1]].value, text)

    def scrub(self, text: str, most: int | None = None) -> str:
        """Return a text without any value, whether plain or in one of its usual encodings.

        `most` limits the result to the text's first characters. The characters after them are read too, as far as
        `longest`, so that no value is cut in two and left in part.
        """
        if self._found is None:
            return text[:most]
        if most is not None:
            found = self._found.finditer(text)
            most = next((one.end() for one in found if one.start() < most < one.end()), most)
        return self._found.sub(self._marked, text[:most])

    def _marked(self, found: re.Match[str]) -> str:
        return f"[secret: {self._names[found[0]]}]"


class _UnusableError(Exception):
    """A value cannot be used; the sentence does not hold it."""


def _value(settings: SecretSettings, environment: Mapping[str, str], folder: Path) -> str:
    if settings.env is not None:
        source, value = f"the environment variable `{settings.env}`", environment.get(settings.env)
        if value is None:
            raise _UnusableError(f"{source} is not set")
    else:
        path = folder / Path(settings.file or "").expanduser()
        source = f"the file `{path}`"
        try:
            with path.open("rb") as file:
                value = file.read(_LONGEST + 1).decode()
        except OSError as error:
            raise _UnusableError(f"{source} cannot be read, {(error.strerror or 'unknown error').lower()}") from None
        except UnicodeDecodeError:
            raise _UnusableError(f"{source} is not UTF-8") from None
    value = value.strip("\r\n")
    if not value.strip():
        raise _UnusableError(f"{source} is empty")
    if len(value) < SHORTEST:
        raise _UnusableError(f"{source} holds fewer than {SHORTEST} characters, too few to be recognised in a text")
    if len(value) > _LONGEST:
        raise _UnusableError(f"{source} holds more than {_LONGEST} characters")
    return value


def _forms(value: str) -> frozenset[str]:
    """Return the written forms of a value: plain, and as the usual encodings and markups write it."""
    raw = value.encode("utf-8", "surrogateescape")
    quoted = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    plain = {value, html.escape(value), *quoted, *(form.replace("/", r"\/") for form in quoted)}
    plain |= {_MARKDOWN.sub(r"\\\1", form) for form in plain}
    percent = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    percent |= {_CODE.sub(lambda code: code[0].lower(), form) for form in percent}
    return frozenset((*plain, *percent, raw.hex(), raw.hex().upper(), *_base64(raw)))


def _base64(raw: bytes) -> Iterator[str]:
    """Yield the base64 forms of these bytes at any place in a longer text."""
    for offset in range(3):
        written = base64.b64encode(bytes(offset) + raw)
        # Characters that depend on the bytes before and after are left out.
        core = written[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6].decode()
        yield core
        yield core.translate(str.maketrans("+/", "-_"))
