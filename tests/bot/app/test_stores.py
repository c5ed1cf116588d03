"""The embedded store that begins to load early: one server for all, gone with the last who leaves."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from bot.app.stores import begun_store
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import StoreError
from bot.store.servers.embedded_server import Supervisor
from bot.tools import catalogue
from tests.bot.kit import eventually
from tests.store.world import lives

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    (tmp_path / "config.yaml").write_text("{}")
    (tmp_path / "data").mkdir(mode=0o700)
    place = {"LOCKGATE_DATA_DIR": str(tmp_path / "data")}
    return load_config(tmp_path / "config.yaml", place, catalogue.ARGUMENTS)


async def test_the_server_runs_when_the_block_opens_it_and_ends_after_both_have_left(settings: Config) -> None:
    opened = Supervisor(settings.data_dir)
    async with begun_store(settings):
        # The block's own attachment begins in a thread, which may come late.
        await eventually(anyio.Path(settings.data_dir / "store" / "socket").exists)
        await opened.attach()
        pid = int(opened.files.pid.read_text())
        await opened.detach()
        assert lives(pid)
    assert not lives(pid)


async def test_a_store_elsewhere_is_left_alone(settings: Config) -> None:
    elsewhere = replace(settings, store=settings.store.model_copy(update={"url": "redis://127.0.0.1:1/0"}))
    async with begun_store(elsewhere):
        pass
    assert not (settings.data_dir / "store").exists()


async def test_a_store_that_cannot_be_used_is_reported_by_the_block(settings: Config) -> None:
    (settings.data_dir / "store").write_text("no folder")
    async with begun_store(settings):
        with pytest.raises(StoreError, match="cannot be used"):
            await Supervisor(settings.data_dir).attach()
