"""Views, the assistant's thread and files of a played Slack."""

import mimetypes

from tests.sim.slack_blocks import check_view, decoded
from tests.sim.slack_chat import place, root
from tests.sim.slack_state import Json, SlackError, State, Token, Upload

TRIGGER_LIFE = 3.0


def trigger(state: State) -> str:
    """Return a trigger id that can be used for three seconds."""
    made = f"{state.number()}.{state.number()}.trigger"
    state.triggers[made] = state.now()
    return made


def _use(state: State, args: Json) -> None:
    made = state.triggers.pop(str(args.get("trigger_id", "")), None)
    if made is None:
        raise SlackError("invalid_trigger_id")
    if state.now() - made > TRIGGER_LIFE:
        raise SlackError("expired_trigger_id")


def keep_view(state: State, token: Token, view: Json, view_id: str = "") -> Json:
    """Return a view as it is kept, with its id and a hash of this version."""
    kept_id = view_id or state.id("V")
    more = {"id": kept_id, "team_id": token.team, "app_id": state.app.id, "hash": f"{state.number()}.hash"}
    filled: Json = {"private_metadata": "", "callback_id": "", "state": {"values": {}}, "bot_id": f"B{token.user}"}
    state.views[kept_id] = filled | view | more
    return state.views[kept_id]


def view_open(state: State, token: Token, args: Json) -> Json:
    """`views.open`: for whoever made the trigger id a moment ago."""
    view = check_view(args.get("view"))
    _use(state, args)
    return {"view": keep_view(state, token, view)}


def view_update(state: State, token: Token, args: Json) -> Json:
    """`views.update`: not over a version that the caller has not seen."""
    view_id = str(args.get("view_id", ""))
    if view_id not in state.views:
        raise SlackError("not_found")
    if args.get("hash") and args["hash"] != state.views[view_id]["hash"]:
        raise SlackError("hash_conflict")
    return {"view": keep_view(state, token, check_view(args.get("view")), view_id)}


def view_publish(state: State, token: Token, args: Json) -> Json:
    """`views.publish`: somebody's home."""
    user = str(args.get("user_id", ""))
    if user not in state.members:
        raise SlackError("user_not_found")
    view = check_view(args.get("view"))
    if view["type"] != "home":
        raise SlackError("invalid_arguments")
    before = state.homes.get((token.team, user), {})
    if args.get("hash") and args["hash"] != before.get("hash"):
        raise SlackError("hash_conflict")
    kept = keep_view(state, token, view, str(before.get("id", "")))
    state.homes[token.team, user] = kept
    return {"view": kept}


def _thread(state: State, token: Token, args: Json) -> tuple[str, str]:
    channel = place(state, token, {"channel": args.get("channel_id")})
    return channel.id, root(state, channel, str(args.get("thread_ts", "")))


def set_status(state: State, token: Token, args: Json) -> Json:
    """`assistant.threads.setStatus`: an empty one takes it away."""
    where = _thread(state, token, args)
    state.statuses[where] = str(args.get("status", ""))
    return {}


def set_title(state: State, token: Token, args: Json) -> Json:
    """`assistant.threads.setTitle`."""
    state.titles[_thread(state, token, args)] = str(args.get("title", ""))
    return {}


def set_prompts(state: State, token: Token, args: Json) -> Json:
    """`assistant.threads.setSuggestedPrompts`: one to four."""
    prompts: list[Json] = decoded(args.get("prompts")) or []
    if not 1 <= len(prompts) <= 4 or not all(each.get("title") and each.get("message") for each in prompts):
        raise SlackError("invalid_arguments")
    state.prompts[_thread(state, token, args)] = prompts
    return {}


def upload_url(state: State, _token: Token, args: Json) -> Json:
    """`files.getUploadURLExternal`: where to send a file of a given length."""
    if not args.get("filename") or int(args.get("length") or 0) < 1:
        raise SlackError("invalid_arguments")
    name = str(args["filename"])
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    file = Upload(state.id("F"), name, length=int(args["length"]), mimetype=kind)
    state.uploads[file.id] = file
    return {"file_id": file.id, "upload_url": f"{args['base']}/upload/{file.id}"}


def complete_upload(state: State, token: Token, args: Json) -> Json:
    """`files.completeUploadExternal`: share what was sent."""
    sent: list[Json] = decoded(args.get("files")) or []
    files: list[Upload] = []
    for each in sent:
        file = state.uploads.get(str(each.get("id", "")))
        if file is None or len(file.data) != file.length:
            raise SlackError("file_not_found" if file is None else "posting_to_channel_failed")
        files.append(file)
    told = [told_file(file, str(args["base"])) for file in files]
    channels = [each for each in str(args.get("channel_id") or args.get("channels") or "").split(",") if each]
    for name in channels:
        channel = place(state, token, {"channel": name})
        body: Json = {"text": args.get("initial_comment") or "", "files": told, "subtype": "file_share"}
        if args.get("thread_ts"):
            body["thread_ts"] = root(state, channel, str(args["thread_ts"]))
        state.post(channel, token.user, body | {"bot_id": f"B{token.user}"})
    for file in files:
        file.complete = True
    return {"files": told}


def file_info(state: State, _token: Token, args: Json) -> Json:
    """`files.info`."""
    file = state.uploads.get(str(args.get("file", "")))
    if file is None:
        raise SlackError("file_not_found")
    return {"file": told_file(file, str(args["base"]))}


def told_file(file: Upload, base: str) -> Json:
    """Return a file as messages tell it."""
    url = f"{base}/files/{file.id}/{file.name}"
    told: Json = {"id": file.id, "name": file.name, "title": file.name, "mimetype": file.mimetype}
    return (
        told | {"size": len(file.data), "mode": "hosted", "url_private": url, "url_private_download": url} | file.told
    )
