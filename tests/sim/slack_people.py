"""People of a played Slack, and what they do and see."""

from dataclasses import dataclass
from typing import Any, Protocol

from tests.sim import slack_chat, slack_surfaces
from tests.sim.slack_blocks import clickable, notified, shown
from tests.sim.slack_events import Attempt, Reach
from tests.sim.slack_http import Http
from tests.sim.slack_state import Channel, Event, Json, Member, Message, SlackError, State, Token, Upload


class Played(Protocol):
    """What people need of the whole."""

    state: State
    reach: Reach
    http: Http


@dataclass
class Person:
    """Somebody with an account. What they do returns when the app has answered it, or was given up on."""

    slack: Played
    member: Member

    @property
    def id(self) -> str:
        """The account."""
        return self.member.id

    @property
    def _bot(self) -> Token:
        """The app's installation that serves them: their own workspace's, or that of a channel they are a guest in."""
        tokens = list(self.slack.state.bot_tokens())
        return next((token for token in tokens if token.team == self.member.team), tokens[0])

    def dm(self) -> Channel:
        """Return the conversation with the bot."""
        return self.slack.state.im(self._bot.team, self.id, self._bot.user)

    async def says(self, channel: Channel, text: str, thread: Message | None = None, **more: Any) -> Message:  # noqa: ANN401 - fields of a message
        """Write into a channel, or a thread of it."""
        if self.id not in channel.members:
            raise SlackError("not_in_channel")
        body = {"text": text, **more} | ({"thread_ts": thread.thread or thread.ts} if thread is not None else {})
        message = self.slack.state.post(channel, self.id, body)
        await self.slack.reach.wait()
        return message

    async def mentions(self, channel: Channel, text: str, thread: Message | None = None) -> Message:
        """Write to the bot where others read too."""
        return await self.says(channel, f"<@{self._bot_in(channel).user}> {text}", thread)

    async def uploads(
        self, channel: Channel, name: str, data: bytes, kind: str = "text/plain", text: str = ""
    ) -> Message:
        """Share a file with a few words."""
        file = Upload(self.slack.state.id("F"), name, data, len(data), kind, complete=True)
        self.slack.state.uploads[file.id] = file
        files = [slack_surfaces.told_file(file, self.slack.http.base)]
        return await self.says(channel, text, files=files, subtype="file_share")

    async def edits(self, message: Message, text: str) -> None:
        """Change what they wrote."""
        before = dict(message.body)
        message.body |= {"text": text, "edited": {"user": self.id, "ts": self.slack.state.ts()}}
        self.slack.state.changed(self.slack.state.channel(message.channel), message, before)
        await self.slack.reach.wait()

    async def deletes(self, message: Message) -> None:
        """Take back what they wrote."""
        message.deleted = True
        self.slack.state.changed(self.slack.state.channel(message.channel), message, dict(message.body))
        await self.slack.reach.wait()

    async def runs(self, line: str, channel: Channel | None = None, thread: Message | None = None) -> Attempt:
        """Run a slash command, by itself or in a channel.

        Raises SlackError: Slack has none in threads.
        """
        if thread is not None:
            raise SlackError("slash_commands_are_not_supported_in_threads")
        where = channel or self.dm()
        command, _, text = line.partition(" ")
        url = self.slack.http.response_url(where.id, self.id)
        place = {"channel_id": where.id, "channel_name": where.name, "response_url": url}
        payload: Json = {"command": command, "text": text, **self._who(where), **place}
        return await self._asks("slash_commands", payload, where)

    async def presses(self, message: Message, action_id: str) -> Attempt:
        """Press a button, or choose in a menu, of a message they see."""
        if message.deleted or (message.shown_to and message.shown_to != self.id):
            raise SlackError("message_not_found")
        channel = self.slack.state.channel(message.channel)
        action = _action(message.blocks, action_id) | {"action_ts": self.slack.state.ts()}
        url = self.slack.http.response_url(channel.id, self.id, message.ts)
        place: Json = {"type": "message", "message_ts": message.ts, "channel_id": channel.id}
        place |= {"is_ephemeral": bool(message.shown_to)}
        payload = self._interaction("block_actions", channel) | {"container": place, "actions": [action]}
        payload |= {"channel": {"id": channel.id, "name": channel.name}, "response_url": url}
        return await self._asks(
            "interactive", payload | ({} if message.shown_to else {"message": message.body}), channel
        )

    async def presses_in(self, view: Json, action_id: str) -> Attempt:
        """Press a button of a modal or of their home."""
        action = _action(view["blocks"], action_id) | {"action_ts": self.slack.state.ts()}
        payload = self._interaction("block_actions", None) | {"view": view, "actions": [action]}
        return await self._asks("interactive", payload | {"container": {"type": "view", "view_id": view["id"]}}, None)

    async def submits(self, view: Json, **values: str) -> Attempt:
        """Send a modal off with what they typed, by the `block_id` of each field."""
        filled: Json = {}
        for block in view["blocks"]:
            if block["type"] == "input":
                name = str(block.get("block_id", ""))
                element = block["element"]
                filled[name] = {element["action_id"]: {"type": element["type"], "value": values.get(name)}}
        payload = self._interaction("view_submission", None) | {"view": view | {"state": {"values": filled}}}
        attempt = await self._asks("interactive", payload, None)
        answer = attempt.answer or {}
        if answer.get("response_action") in {"update", "push"}:
            slack_surfaces.keep_view(self.slack.state, self._bot, answer["view"], view["id"])
        elif not attempt.failed and answer.get("response_action") != "errors":
            self.slack.state.views.pop(view["id"], None)
        return attempt

    async def chooses(self, callback_id: str, message: Message | None = None) -> Attempt:
        """Choose a shortcut, of a message or of everywhere."""
        if message is None:
            return await self._asks(
                "interactive", self._interaction("shortcut", None) | {"callback_id": callback_id}, None
            )
        channel = self.slack.state.channel(message.channel)
        more = {"message": message.body, "message_ts": message.ts, "channel": {"id": channel.id, "name": channel.name}}
        url = self.slack.http.response_url(channel.id, self.id, message.ts)
        payload = self._interaction("message_action", channel) | more | {"response_url": url}
        return await self._asks("interactive", payload | {"callback_id": callback_id}, channel)

    async def opens_home(self, tab: str = "home") -> None:
        """Open the app's home, or its messages."""
        body: Json = {"type": "app_home_opened", "user": self.id, "channel": self.dm().id, "tab": tab}
        home = self.slack.state.homes.get((self._bot.team, self.id))
        more = {"view": home} if home and tab == "home" else {}
        self.slack.state.tell(Event(body | more | {"event_ts": self.slack.state.ts()}, self._bot.team))
        await self.slack.reach.wait()

    async def stops(self, channel: Channel, thread: Message) -> None:
        """Press the button that stops what the app is doing in a thread."""
        body: Json = {"type": "agent_session_stopped", "user": self.id, "channel": channel.id}
        body |= {"thread_ts": thread.ts, "streaming_message_ts": [], "event_ts": self.slack.state.ts()}
        self.slack.state.tell(Event(body, channel.team, channel))
        await self.slack.reach.wait()

    async def becomes(self, **facts: bool) -> None:
        """Be made something else by an admin: a guest, or one whose account is closed."""
        for name, value in facts.items():
            setattr(self.member, name, value)
        told: Json = {"id": self.id, "team_id": self.member.team, "deleted": self.member.deleted}
        body: Json = {"type": "user_change", "user": told, "event_ts": self.slack.state.ts()}
        self.slack.state.tell(Event(body, self._bot.team))
        await self.slack.reach.wait()

    async def joins(self, channel: Channel) -> None:
        """Become a member."""
        self.slack.state.join(channel, self.id)
        await self.slack.reach.wait()

    async def leaves(self, channel: Channel) -> None:
        """Stop being a member."""
        channel.members.remove(self.id)
        body: Json = {"type": "member_left_channel", "user": self.id, "channel": channel.id, "team": self.member.team}
        self.slack.state.tell(Event(body | {"event_ts": self.slack.state.ts()}, channel.team, channel))
        await self.slack.reach.wait()

    def sees(self, channel: Channel, thread: Message | None = None) -> list[str]:
        """Return the words of each message in a channel, or of a thread, with what only they are shown."""
        return [shown(message.body) for message in self.messages(channel, thread)]

    def messages(self, channel: Channel, thread: Message | None = None) -> list[Message]:
        """Return the messages in a channel outside threads, or those of one thread.

        Raises SlackError: they are not in it.
        """
        if self.id not in channel.members:
            raise SlackError("not_in_channel")
        mine = [each for each in channel.messages if not each.deleted and each.shown_to in {"", self.id}]
        if thread is None:
            return [each for each in mine if each.thread in {"", each.ts} or each.body.get("reply_broadcast")]
        return [each for each in mine if (thread.thread or thread.ts) in {each.ts, each.thread}]

    def home(self) -> Json:
        """Return what their home shows, nothing if it was never published."""
        return self.slack.state.homes.get((self._bot.team, self.id), {})

    def notified_by(self, message: Message) -> bool:
        """Tell whether a message notifies them by a mention."""
        found = notified(message.body)
        return f"@{self.id}" in found or any(each[1:] in {"channel", "here", "everyone"} for each in found)

    def can_click(self, message: Message) -> set[str]:
        """Return the addresses that can be clicked in a message."""
        return clickable(message.body)

    def _bot_in(self, channel: Channel) -> Token:
        bots = self.slack.state.bots(channel)
        return bots[0] if bots else self._bot

    def _who(self, channel: Channel | None) -> Json:
        token = self._bot_in(channel) if channel is not None else self._bot
        team = self.slack.state.teams[token.team]
        return {
            "token": self.slack.state.app.verification,
            "team_id": team.id,
            "team_domain": team.name,
            "user_id": self.id,
            "user_name": self.member.name,
            "api_app_id": self.slack.state.app.id,
            "is_enterprise_install": "false",
            "trigger_id": slack_surfaces.trigger(self.slack.state),
        } | ({"enterprise_id": team.enterprise} if team.enterprise else {})

    def _interaction(self, kind: str, channel: Channel | None) -> Json:
        who = self._who(channel)
        team = {"id": who["team_id"], "domain": who["team_domain"]}
        user = {"id": self.id, "username": self.member.name, "name": self.member.name, "team_id": self.member.team}
        kept = {name: who[name] for name in ("token", "api_app_id", "trigger_id")}
        return {"type": kind, "team": team, "user": user, "enterprise": None, "is_enterprise_install": False, **kept}

    async def _asks(self, kind: Any, payload: Json, channel: Channel | None) -> Attempt:  # noqa: ANN401 - a literal
        attempt = await self.slack.reach.ask(kind, payload)
        if attempt.failed and channel is not None:
            text = f"{payload.get('command', 'the app')} failed with the error `operation_timeout`"
            slack_chat.whisper(self.slack.state, channel, self.id, {"text": text, "user": "USLACKBOT"})
        elif kind == "slash_commands" and channel is not None and attempt.answer:
            url = self.slack.http.urls[str(payload["response_url"]).rpartition("/")[2]]
            self.slack.http.answered(url, attempt.answer)
        await self.slack.reach.wait()
        return attempt


def _action(blocks: list[Json], action_id: str) -> Json:
    for block in blocks:
        elements: list[Json] = [*block.get("elements", ()), block.get("accessory", Json())]
        for element in elements:
            if element.get("action_id") == action_id:
                told = {name: element[name] for name in ("action_id", "type", "value", "text") if name in element}
                return told | {"block_id": block.get("block_id", "b1")}
    raise SlackError("no_such_button")
