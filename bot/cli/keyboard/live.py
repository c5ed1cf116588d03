"""`lockgate chat` at a terminal with an editor: the prompt first, everything else behind it.

Only the editor is imported before the prompt. Configuration, store and tools load while a person begins to type.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bot.cli.keyboard.editor import Editor
from bot.cli.keyboard.history import NAME, LineHistory
from bot.cli.terminal.greeting import greeting
from bot.config.file.source import place_of
from channels.console import TerminalLook

if TYPE_CHECKING:
    from bot.core.logs import LogLevel


async def chat(named: Path | None, level: "LogLevel | None" = None) -> None:
    """Run the console at a terminal until Ctrl-D or `/quit`.

    `named` is the configuration's file, as in `bot.config.load.load_config`, and `level` the log level of the command
    line. Raises OperatorError: the configuration, the data directory or the store cannot be used.
    """
    place = await asyncio.to_thread(place_of, named, os.environ)
    history = LineHistory(place.data_dir / NAME)
    await asyncio.to_thread(history.load)
    sys.stdout.write(f"{greeting(place.file)}\n")
    sys.stdout.flush()
    colour = not os.environ.get("NO_COLOR")
    editor = Editor(sys.stdout, history, colour=colour, term=os.environ["TERM"])
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(editor.read())
        try:
            await editor.drawn.wait()
            # In a thread, so that the keyboard answers meanwhile.
            await asyncio.to_thread(__import__, "bot.cli.keyboard.conversation")
            from bot.cli.keyboard.conversation import converse

            look = TerminalLook(colour=colour, screen=editor)
            await converse(named, level, editor, history, look=look)
        finally:
            reading.cancel()
