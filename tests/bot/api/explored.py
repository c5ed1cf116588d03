"""The API as schemathesis explores it: over real HTTP, by the document that `lockgate openapi` prints."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.app.programs import document
from tests.bot.api.kit import ApiHost

CHECKS: Final = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance"),
    *("response_schema_conformance", "unsupported_method", "allow_header_conformance", "ignored_auth"),
    "use_after_free",
)
"""What must hold of every answer. Whoever shows no token too often is told to wait, and not that one is missing."""

_HOOKS: Final = 'import schemathesis\n\nschemathesis.serializer.alias("application/jsonl", "text/plain")\n'
"""How it writes what an import takes."""

_SETTINGS: Final = """
[[operations]]
include-path-regex = "/simulate$"
checks.not_a_server_error.expected-statuses = ["2xx", "4xx", "503"]
"""
"""What it is to know of the API: simulations are so many a minute, and the next one is told that it is busy."""


@dataclass(frozen=True)
class Explored:
    """What became of it: all held if `code` is 0; `told` is what the program says."""

    code: int
    told: str


async def explore(host: ApiHost, folder: Path, token: str, *more: str) -> Explored:
    """Send an API what its document allows and what it does not, with a token, none if it is empty."""
    described = folder / "openapi.json"
    described.write_text(json.dumps(document()), encoding="utf-8")
    hooks = folder / "hooks.py"
    hooks.write_text(_HOOKS, encoding="utf-8")
    settings = _SETTINGS
    if token:
        async with host.client(token) as client:
            begun = await client.post("/v1/sessions", json={"input": "hello"})
        if begun.is_success:
            settings = f'[parameters]\n"path.sid" = "{begun.json()["id"]}"\n{settings}'
    (folder / "schemathesis.toml").write_text(settings, encoding="utf-8")
    shown = ("--header", f"Authorization: Bearer {token}") if token else ()
    # Without a token it is soon told that it asks too often, which is no acceptance.
    checks = [one for one in CHECKS if token or one != "missing_required_header"]
    program = Path(sys.executable).with_name("schemathesis")
    command = ("run", str(described), "--url", host.url, "--checks", ",".join(checks), "--no-color", *shown, *more)
    running = await asyncio.create_subprocess_exec(
        program,
        *command,
        cwd=folder,
        env={**os.environ, "NO_PROXY": "*", "SCHEMATHESIS_HOOKS": str(hooks)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await running.communicate()
    assert running.returncode is not None
    return Explored(running.returncode, told.decode())
