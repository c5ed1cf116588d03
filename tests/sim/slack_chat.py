"""`chat.*` of a played Slack."""

from typing import Any

from tests.sim.slack_blocks import check_message, decoded, is_object
from tests.sim.slack_state import Channel, Json, Message, SlackError, State, Token

TEXT = 40_000
UPDATE = 4_000
APPEND = 12_000
_KEPT = ("text", "thread_ts", "unfurl_links", "unfurl_media", "link_names", "parse", "mrkdwn", "reply_broadcast")


def place(state: State, token: Token, args: Json) -> Channel:
    """Return the channel that a bot may write in; a person's id stands for the conversation with them.

    Raises SlackError: there is none that it can see, or that it is in.
    """
    wanted = str(args.get("channel", ""))
    if wanted in state.members:
        return state.im(token.team, wanted, token.user)
    channel = state.channel(wanted)
    if token.user not in channel.members:
        raise SlackError("not_in_channel" if channel.kind == "public" else "channel_not_found")
    if channel.archived:
        raise SlackError("is_archived")
    if channel.restricted:
        raise SlackError("restricted_action")
    return channel


def _body(state: State, token: Token, channel: Channel, args: Json, most: int) -> Json:
    body = {name: args[name] for name in _KEPT if args.get(name) not in {None, ""}}
    if len(str(body.get("text", ""))) > most:
        raise SlackError("msg_too_long")
    if args.get("blocks"):
        body["blocks"] = check_message(args["blocks"])
    if args.get("markdown_text"):
        if body.get("blocks") or body.get("text"):
            raise SlackError("markdown_text_conflict")
        body["text"] = _stretch(str(args["markdown_text"]))
    if not body.get("text") and not body.get("blocks"):
        raise SlackError("no_text")
    if args.get("metadata"):
        body["metadata"] = _metadata(args["metadata"])
    if body.get("thread_ts"):
        body["thread_ts"] = root(state, channel, str(body["thread_ts"]))
    return body | {"bot_id": f"B{token.user}", "app_id": state.app.id}


def root(state: State, channel: Channel, ts: str) -> str:
    """Return the message that a thread hangs on; the real one is said to post outside it, at times, when it is gone.

    Raises SlackError: it is gone.
    """
    try:
        message = state.message(channel, ts)
    except SlackError:
        if not state.strict_threads:
            return ""
        raise SlackError("thread_not_found") from None
    return message.thread or ts


def _metadata(value: Any) -> Json:  # noqa: ANN401 - whatever was sent
    sent = decoded(value)
    if not is_object(sent) or not sent.get("event_type") or not is_object(sent.get("event_payload")):
        raise SlackError("invalid_metadata_format")
    return sent


def _stretch(text: str) -> str:
    if len(text) > APPEND:
        raise SlackError("msg_too_long")
    return text


def post_message(state: State, token: Token, args: Json) -> Json:
    """`chat.postMessage`."""
    channel = place(state, token, args)
    message = state.post(channel, token.user, _body(state, token, channel, args, TEXT))
    return {"channel": channel.id, "ts": message.ts, "message": message.body}


def post_ephemeral(state: State, token: Token, args: Json) -> Json:
    """`chat.postEphemeral`: for one member, neither kept nor told."""
    channel = place(state, token, args)
    user = str(args.get("user", ""))
    if user not in channel.members:
        raise SlackError("user_not_in_channel")
    body = _body(state, token, channel, args, TEXT)
    ts = whisper(state, channel, user, body | {"user": token.user}).ts
    return {"message_ts": ts}


def whisper(state: State, channel: Channel, user: str, body: Json) -> Message:
    """Show a message to one person alone; in a thread that has no replies nobody sees it."""
    ts = state.ts()
    message = Message(channel.id, ts, {"type": "message", "ts": ts, **body}, shown_to=user)
    thread = message.thread
    if not thread or any(each.thread == thread and each.ts != thread and not each.deleted for each in channel.messages):
        channel.messages.append(message)
    return message


def _own(state: State, token: Token, args: Json, refusal: str) -> tuple[Channel, Message]:
    channel = place(state, token, args)
    message = state.message(channel, str(args.get("ts", "")))
    if message.user != token.user:
        raise SlackError(refusal)
    return channel, message


def update(state: State, token: Token, args: Json) -> Json:
    """`chat.update`: only blocks take the place of blocks, also none of them."""
    channel, message = _own(state, token, args, "cant_update_message")
    if _streams(state, message):
        raise SlackError("streaming_state_conflict")
    body = _body(state, token, channel, {**args, "thread_ts": None}, UPDATE)
    before = dict(message.body)
    kept = {name: before[name] for name in ("type", "ts", "user", "thread_ts", "metadata") if name in before}
    if "blocks" not in args and "blocks" in before:
        kept["blocks"] = before["blocks"]
    message.body = kept | body | {"edited": {"user": token.user, "ts": state.ts()}}
    state.changed(channel, message, before)
    return {"channel": channel.id, "ts": message.ts, "text": message.text, "message": message.body}


def delete(state: State, token: Token, args: Json) -> Json:
    """`chat.delete`."""
    channel, message = _own(state, token, args, "cant_delete_message")
    message.deleted = True
    state.changed(channel, message, dict(message.body))
    return {"channel": channel.id, "ts": message.ts}


def start_stream(state: State, token: Token, args: Json) -> Json:
    """`chat.startStream`: in a thread, and in channels for a known reader."""
    channel = place(state, token, args)
    if not args.get("thread_ts"):
        raise SlackError("invalid_arguments")
    for name in ("recipient_team_id", "recipient_user_id"):
        if channel.kind != "im" and not args.get(name):
            raise SlackError(f"missing_{name}")
    text = _chunks(args)
    body = {"text": text, "thread_ts": root(state, channel, str(args["thread_ts"])), "bot_id": f"B{token.user}"}
    message = state.post(channel, token.user, body)
    message.streaming, message.started = True, state.now()
    return {"channel": channel.id, "ts": message.ts}


def append_stream(state: State, token: Token, args: Json) -> Json:
    """`chat.appendStream`."""
    channel, message = _stream(state, token, args)
    text = _chunks(args)
    if not text:
        raise SlackError("no_text")
    message.body["text"] = message.text + text
    return {"channel": channel.id, "ts": message.ts}


def stop_stream(state: State, token: Token, args: Json) -> Json:
    """`chat.stopStream`: the message is then one like others."""
    channel, message = _stream(state, token, args)
    before = dict(message.body)
    more: Json = {"text": message.text + _chunks(args)}
    if args.get("blocks"):
        more["blocks"] = check_message(args["blocks"])
    if args.get("metadata"):
        more["metadata"] = _metadata(args["metadata"])
    message.body |= more
    message.streaming = False
    state.changed(channel, message, before)
    return {"channel": channel.id, "ts": message.ts, "message": message.body}


def _stream(state: State, token: Token, args: Json) -> tuple[Channel, Message]:
    channel, message = _own(state, token, args, "message_not_owned_by_app")
    if not _streams(state, message):
        raise SlackError("message_not_in_streaming_state")
    return channel, message


def _streams(state: State, message: Message) -> bool:
    if state.now() - message.started > state.stream_life:
        message.streaming = False
    return message.streaming


def _chunks(args: Json) -> str:
    chunks: list[Json] = decoded(args.get("chunks")) or []
    if chunks and args.get("markdown_text"):
        raise SlackError("cannot_provide_both_markdown_text_and_chunks")
    texts = [str(chunk.get("text", "")) for chunk in chunks if chunk.get("type") == "markdown_text"]
    return _stretch("".join(texts) or str(args.get("markdown_text") or ""))
