"""`/config`: what admins are told of the configuration, and that no secret is among it."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.access.authorize import Caller, Ingress
from bot.access.labelling import CONFIGURED
from bot.commands.command import Reply
from bot.config.load import load_config
from bot.config.shown import machine, sections
from bot.tools.catalogue import NAMES
from policy.labels import PUBLIC
from policy.request import Role
from tests.bot.kit import HOME, TOP
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

VARIABLES: Final = (
    *("TG", "HOOK", "SL", "APP", "SIGN", "CLIENT", "MODEL_KEY", "HEAR_KEY", "WEATHER", "NOTES"),
    *("BUCKET_KEY", "BUCKET_PASS", "BUCKET_TOKEN"),
)
"""Every kind of variable that a configuration names."""

EVERYTHING: Final[dict[str, Any]] = {
    "model": {
        "name": "openai-chat:own",
        "providers": {"openai-chat:own": {"base_url": "https://models.example/SECRET?key=SECRET", "key": "MODEL_KEY"}},
        "instructions": "say SECRET",
    },
    "files": {
        "bucket": {
            "name": "files",
            "endpoint": "https://s3.example:9000",
            "key": "BUCKET_KEY",
            "secret": "BUCKET_PASS",
            "token": "BUCKET_TOKEN",
        }
    },
    "transcriber": {"base_url": "https://hear.example/SECRET", "model": "ear", "key": "HEAR_KEY"},
    "secrets": {"weather": {"env": "WEATHER", "tools": ["web_fetch"], "hosts": ["weather.example"]}},
    "mcp_servers": {
        "notes": {"command": "notes-mcp", "args": ["--key", "SECRET"], "env": {"NOTES": "SECRET"}, "tools": {}},
        "far": {"url": "https://far.example/SECRET", "headers": {"X-Key": "SECRET"}, "tools": {}},
    },
    "channels": {
        "telegram": {
            "token": "TG",
            "base_url": "https://tg.example/SECRET",
            "webhook": {"url": "https://bot.example/SECRET", "secret": "HOOK", "port": 8443},
        },
        "slack": {
            "token": "SL",
            "app_token": "APP",
            "http": {"secret": "SIGN", "port": 1, "url": "https://bot.example/SECRET"},
            "install": {
                "client_id": "1.2",
                "client_secret": "CLIENT",
                "url": "https://bot.example/SECRET",
                "port": 2,
            },
        },
    },
    "policy": {
        "channels": {name: {"classification": "INTERNAL"} for name in ("console", "telegram", "slack")},
        "mcp_servers": {name: {"floor": "PUBLIC"} for name in ("notes", "far")},
    },
}


async def asked(person: Person, line: str, role: Role = Role.ADMIN) -> Reply:
    caller = Caller("owner", role, TOP, Ingress.COMMAND)
    return await person.app.commands.answer(person.app.commands.request(caller, HOME, person.sid), line)


@settings(max_examples=25)
@given(secret=st.from_regex(r"[A-Za-z0-9]{12,24}", fullmatch=True), data=st.data())
def test_no_secret_is_shown_wherever_it_stands(
    tmp_path_factory: pytest.TempPathFactory, secret: str, data: st.DataObject
) -> None:
    """Neither the value of a variable, nor one that an operator wrote where it does not belong."""
    path = tmp_path_factory.mktemp("config") / "config.yaml"
    path.write_text(json.dumps(EVERYTHING).replace("SECRET", secret))
    user = data.draw(st.sampled_from(["", f"{secret}@", f":{secret}@", f"user:{secret}@"]))
    query = data.draw(st.sampled_from(["", f"?password={secret}", f"#{secret}"]))
    store = data.draw(
        st.sampled_from(
            [
                f"rediss://{user}store.example:6380/0{query}",
                f"redis+sentinel://{user}a.example,b.example/main{query}",
                f"redis+cluster://{user}a.example:1,b.example:2{query}",
                f"unix:///run/store.sock{query}",
            ]
        )
    )
    environment = {**dict.fromkeys(VARIABLES, secret), "LOCKGATE_STORE_URL": store}
    shown = sections(load_config(path, environment, NAMES))
    told = "\n".join(f"{one.path} {one.value}" for values in shown.values() for one in values)
    assert secret not in told
    assert set(VARIABLES) <= set(told.replace(",", " ").split())
    assert "https://models.example" in told


def test_of_an_address_the_machine_is_shown() -> None:
    assert machine("redis://:pw@host:6379/0?x=1") == "redis://host:6379"
    assert machine("redis+sentinel://u:pw@a:1,b:2/main?sentinel_password=x") == "redis+sentinel://a:1,b:2"
    assert machine("rediss+cluster://:pw@a:1,[::1]:2") == "rediss+cluster://a:1,[::1]:2"
    assert machine("unix:///run/store.sock?db=1") == "unix:///run/store.sock"


async def test_what_is_not_the_default_is_marked(tmp_path: Path) -> None:
    async with running(tmp_path, "limits: {model_steps: 7}\nmodel: {retries: 2}\n", serve=False) as person:
        told = await asked(person, "/config")
        assert told.label == CONFIGURED
        lines = told.text.splitlines()
        assert "* limits.model_steps: 7" in lines
        assert "- model.retries: 2" in lines
        assert "- model.name: offline" in lines
        assert "- policy.principals: owner" in lines
        one = (await asked(person, "/config limits")).text.splitlines()
        assert one == [line for line in lines if " limits." in line]
        assert (await asked(person, "/config policy")).text.splitlines()[0].startswith("- policy.")


async def test_what_is_asked_for_wrongly_is_told(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        assert (await asked(person, "/config limit")).text == "There is no section `limit`, did you mean `limits`?"
        assert "Write it as `/config [SECTION]`" in (await asked(person, "/config a b")).text
        refused = await asked(person, "/config", Role.APPROVER)
        assert "Unknown command" in refused.text
        assert refused.label == PUBLIC
