"""The tests of a bucket alone: objects of other tools, unreadable metadata, lost answers, and a server that fails."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config.files import BucketSettings
from bot.core.errors import ConfigError
from bot.files.bucket import BucketFiles
from bot.files.bucket_access import opened_objects, probed
from bot.files.kept import KeptName, StoredFile
from bot.files.locations import shared, workspace
from bot.files.objects import BucketAddress, Objects
from bot.files.port import AbsentError, UnavailableError, UnusableError, keep_text
from bot.sessions.refs import CallRef
from policy.labels import PUBLIC, parse
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, TOP
from tests.buckets import bucket_files
from tests.servers import SERVERS
from tests.sim.ports import free_port

_ROOT = Path(__file__).parents[3]
_ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
LABEL, SIZE, FROM = "lockgate-label", "lockgate-size", "lockgate-from"


@pytest.fixture
def address() -> BucketAddress:
    return SERVERS.buckets().fresh()


@pytest.fixture
def objects(address: BucketAddress) -> Objects:
    return Objects(address)


@pytest.fixture
def files(address: BucketAddress) -> BucketFiles:
    return bucket_files(address)


def settings(address: BucketAddress, **changes: str) -> BucketSettings:
    return BucketSettings.model_validate({"name": address.name, "endpoint": address.endpoint, **changes})


def test_unknown_is_worst_for_an_object_that_another_tool_put_there(objects: Objects, files: BucketFiles) -> None:
    assert objects.put("files/public/sub/x.md", b"given", {"label": "PUBLIC"}, over=None)
    place = shared("public", PUBLIC, "sub", "x.md")
    assert files.find(place, CONFIDENTIAL) is None
    assert files.list(shared("public", PUBLIC), CONFIDENTIAL) == ()
    assert files.list(shared("public", PUBLIC), TOP) == (("sub/", TOP),)
    found = files.find(place, TOP)
    assert found is not None
    assert (found.label, files.load(found.place, 5), files.owned(found.place)) == (TOP, b"given", False)
    stored = [files.take(name) for name in files.kept()]
    assert [(one.place.parts, one.label, one.unknown) for one in stored] == [
        (("sub",), TOP, True),
        (("sub", "x.md"), TOP, True),
    ]


def test_no_read_up_by_an_object_that_another_tool_put_in_the_way(objects: Objects, files: BucketFiles) -> None:
    """Who may not know of it writes beside it, whatever it is."""
    for key in ("files/public/x.md", "files/public/a", "files/public/b/c"):
        assert objects.put(key, b"given", {}, over=None)
    for parts in (("x.md",), ("a", "b"), ("b",)):
        place = shared("public", PUBLIC, *parts)
        keep_text(files, place, "mine", PUBLIC)
        keep_text(files, place, "mine again", PUBLIC)
        found = files.find(place, PUBLIC)
        assert found is not None
        assert (files.load(found.place, 99), found.label) == (b"mine again", PUBLIC)
    assert files.list(shared("public", PUBLIC), PUBLIC) == (("a/", PUBLIC), ("b", PUBLIC), ("x.md", PUBLIC))
    assert objects.get("files/public/x.md", None)[1] == b"given"


def test_a_put_of_another_tool_over_a_file_makes_it_top(objects: Objects, files: BucketFiles) -> None:
    place = shared("public", PUBLIC, "x")
    files.keep(place, b"ours", PUBLIC)
    head = objects.head("files/public/x")
    assert head is not None
    assert objects.put("files/public/x", b"theirs", {}, over=head.tag)
    assert files.find(place, CONFIDENTIAL) is None
    files.keep(place, b"beside", PUBLIC)
    found = files.find(place, CONFIDENTIAL)
    assert found is not None
    assert files.load(found.place, 99) == b"beside"


@pytest.mark.parametrize(
    "damage",
    [
        {LABEL: ""},
        {LABEL: "PUBLIC{"},
        {LABEL: "NONSENSE"},
        {LABEL: f"sha256:{'0' * 64}"},
        {SIZE: "0"},
        {SIZE: "-1"},
        {SIZE: "x"},
    ],
)
def test_unknown_is_worst_for_metadata_that_cannot_be_read(
    objects: Objects, files: BucketFiles, damage: dict[str, str]
) -> None:
    place = shared("public", PUBLIC, "x")
    files.keep(place, b"x", PUBLIC)
    head, body = objects.get("files/public/x", None)
    assert objects.put("files/public/x", body, {**head.metadata, **damage}, over=head.tag)
    assert files.find(place, CONFIDENTIAL) is None
    found = files.find(place, TOP)
    assert found is not None
    assert found.label == TOP
    files.keep(place, b"again", PUBLIC)
    assert files.find(place, PUBLIC) is not None, "beside what cannot be read"


def test_a_long_label_whose_object_was_changed_is_top(objects: Objects, files: BucketFiles) -> None:
    long = parse(f"INTERNAL{{{','.join(f'compartment-{number:03}' for number in range(300))}}}")
    place = workspace("s", 1, "x")
    files.keep(place, b"x", long)
    assert files.find(place, long) is not None
    # The label of the tree and that of the file.
    for key in list(objects.below("session-files/s/1/.long")):
        head, _ = objects.get(key, None)
        assert objects.put(key, b"PUBLIC", {}, over=head.tag)
    assert files.find(place, long) is None
    assert files.find(place, CONFIDENTIAL) is None


def test_a_tree_that_does_not_say_its_label_is_top(objects: Objects, files: BucketFiles) -> None:
    place = shared("public", PUBLIC, "x.md")
    files.keep(place, b"secret", INTERNAL)
    tree = f"files/public/.above/{files.written(place, INTERNAL).place.tree}/.label"
    head, _ = objects.get(tree, None)
    for metadata in ({**head.metadata, LABEL: "PUBLIC"}, None):
        if metadata is None:
            objects.delete([tree])
        else:
            assert objects.put(tree, b"\nlockgate:0123456789abcdef", metadata, over=head.tag)
        assert files.find(place, CONFIDENTIAL) is None
        assert files.find(place, TOP) is not None
    files.keep(place, b"again", INTERNAL)
    assert files.find(place, INTERNAL) is not None


def test_a_folder_that_lost_its_label_is_top_with_all_in_it(objects: Objects, files: BucketFiles) -> None:
    place = shared("public", PUBLIC, "a", "x")
    files.keep(place, b"x", PUBLIC)
    objects.delete(["files/public/a/.label"])
    assert files.find(place, CONFIDENTIAL) is None
    assert files.find(place, TOP) is not None


@pytest.mark.parametrize("times", [1, 2])
def test_lost_reply_never_duplicates_a_write(files: BucketFiles, times: int) -> None:
    place = shared("public", PUBLIC, "x")
    SERVERS.buckets().fail("lost", "PUT", times)
    files.keep(place, b"first", PUBLIC, replaces=False)
    SERVERS.buckets().fail("lost", "PUT", times)
    assert files.swap(place, b"second", PUBLIC, expected=b"first")
    assert files.load(place, 99) == b"second"
    assert files.load(shared("public", PUBLIC, "x.bak"), 99) == b"first"


def fails_closed(files: BucketFiles, told: str) -> None:
    """See that each method says why it cannot be done, and finds nothing."""
    place = shared("public", PUBLIC, "a", "x")
    for act in (
        lambda: files.find(place, TOP),
        lambda: files.every(place, TOP),
        lambda: files.list(shared("public", PUBLIC), TOP),
        lambda: files.load(place, 99),
        lambda: files.keep(place, b"x", PUBLIC),
        lambda: files.swap(place, b"x", PUBLIC, expected=None),
        lambda: files.restore(StoredFile(place, b"x", None)),
        lambda: list(files.sessions()),
        lambda: list(files.kept()),
        lambda: files.take(KeptName(place)),
        files.clear,
        lambda: files.begin({"public/a": "x"}),
    ):
        with pytest.raises(UnavailableError, match=told) as caught:
            act()
        assert caught.value.next_step
        assert isinstance(caught.value, UnusableError)
        assert not isinstance(caught.value, AbsentError)
    assert not files.forget("s", 2)


def test_a_bucket_that_does_not_exist_is_told(address: BucketAddress) -> None:
    fails_closed(bucket_files(replace(address, name="nowhere")), "`nowhere` at .* does not exist")


def test_a_server_that_does_not_answer_is_told(address: BucketAddress) -> None:
    fails_closed(bucket_files(replace(address, endpoint=f"http://127.0.0.1:{free_port()}")), "does not answer")


def test_a_refused_key_is_told(files: BucketFiles) -> None:
    place = shared("public", PUBLIC, "x")
    for method, act in {
        "GET": lambda: list(files.sessions()),
        "HEAD": lambda: files.owned(place),
        "PUT": lambda: files.keep(place, b"x", PUBLIC),
    }.items():
        SERVERS.buckets().fail("denied", method)
        with pytest.raises(UnavailableError, match="denies access"):
            act()


def test_variables_of_the_environment_lead_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, address: BucketAddress
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
        "AWS_ENDPOINT": "http://127.0.0.1:1",
        "AWS_BUCKET": "another",
        "AWS_REGION": "nowhere-1",
        "AWS_CONDITIONAL_PUT": "disabled",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
        "AWS_S3_EXPRESS": "true",
    }.items():
        monkeypatch.setenv(name, value)
    files = bucket_files(address)
    files.keep(shared("public", PUBLIC, "x"), b"x", PUBLIC, replaces=False)
    with pytest.raises(UnusableError):
        files.keep(shared("public", PUBLIC, "x"), b"x", PUBLIC, replaces=False)


@pytest.mark.parametrize("variable", ["AWS_SESSION_TOKEN", "AWS_TOKEN"])
def test_a_token_of_another_key_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, address: BucketAddress, variable: str
) -> None:
    """The environment may hold one for AWS, while the bucket is on another server."""
    monkeypatch.setenv(variable, "of-another-key")
    SERVERS.buckets().fail("token", "PUT", 2)
    try:
        assert Objects(address).put("x", b"", {}, over=None)
        with pytest.raises(UnavailableError, match="denies access"):
            Objects(replace(address, token=address.name)).put("y", b"", {}, over=None)
    finally:
        SERVERS.buckets().fail("token", "PUT", 0)


@pytest.mark.parametrize("key", ["files/public//x", "files/public/./x", "files/public/%01x"])
def test_an_object_that_keeps_a_folder_from_being_listed_is_told_and_not_named(
    address: BucketAddress, files: BucketFiles, key: str
) -> None:
    SERVERS.buckets().ask("PUT", f"/{address.name}/{key}")
    with pytest.raises(UnavailableError, match="holds an object whose key has `//`") as caught:
        list(files.kept())
    assert key not in str(caught.value)
    assert caught.value.next_step == "rename it or delete it there, with another tool"


def test_a_key_that_is_too_long_with_its_prefix_is_absent_and_no_fault_of_the_bucket(address: BucketAddress) -> None:
    """A server answers such a request with an error of its own."""
    objects, key = Objects(replace(address, prefix="p" * 200)), "x" * 824
    with pytest.raises(UnusableError):
        objects.put(key, b"x", {}, over=None)
    SERVERS.buckets().fail("denied", "HEAD")
    try:
        assert objects.head(key) is None
        SERVERS.buckets().fail("denied", "GET")
        with pytest.raises(AbsentError):
            objects.get(key, None)
    finally:
        SERVERS.buckets().fail("denied", "GET", 0)
    assert objects.put(key[1:], b"x", {}, over=None)


def test_two_prefixes_are_two_installations(address: BucketAddress) -> None:
    one, two = (bucket_files(replace(address, prefix=prefix)) for prefix in ("a", "b/c"))
    one.keep(workspace("s", 1, "x"), b"x", PUBLIC)
    assert (*one.sessions(), "|", *two.sessions()) == ("s", "|")


def test_a_library_that_is_not_installed_is_told() -> None:
    tried = (
        "import sys; sys.modules['obstore'] = None\n"
        "from bot.config.files import BucketSettings\n"
        "from bot.core.errors import in_words, ConfigError\n"
        "from bot.files.bucket_access import opened_objects\n"
        "try: opened_objects(BucketSettings(name='files'), {'AWS_ACCESS_KEY_ID': 'k', 'AWS_SECRET_ACCESS_KEY': 's'})\n"
        "except ConfigError as error: print(in_words(error))\n"
    )
    ended = subprocess.run([sys.executable, "-c", tried], cwd=_ROOT, capture_output=True, check=True, text=True)
    assert ended.stdout == "`files.bucket` needs a package that is not installed; install `lockgate[bucket]`\n"


def test_a_key_that_is_not_set_is_told(address: BucketAddress) -> None:
    with pytest.raises(ConfigError, match="needs a key") as caught:
        opened_objects(settings(address, secret="BUCKET_SECRET"), _ENVIRONMENT)  # noqa: S106 - the variable's name
    assert caught.value.next_step == "set BUCKET_SECRET in the environment"


def test_a_process_ends_in_order_after_the_server_died() -> None:
    """The library has threads of its own, which outlive the interpreter's end."""
    from tests.buckets import BucketServer  # noqa: PLC0415 - one of its own, to be killed

    server = BucketServer()
    try:
        address = server.fresh()
        used = (
            "import sys\n"
            "from bot.files.locations import workspace\n"
            "from bot.files.objects import BucketAddress\n"
            "from bot.files.port import UnavailableError\n"
            "from policy.labels import PUBLIC\n"
            "from tests.buckets import bucket_files\n"
            f"files = bucket_files({address!r})\n"
            "place = workspace('s', 1, 'a', 'x')\n"
            "files.keep(place, b'x', PUBLIC)\n"
            "print('kept', flush=True); sys.stdin.readline()\n"
            "try: files.load(place, 9)\n"
            "except UnavailableError: print('gone', flush=True)\n"
        )
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-c", used], cwd=_ROOT, stdin=pipe, stdout=pipe, stderr=pipe)
        assert process.stdout is not None
        assert process.stdout.readline() == b"kept\n"
    finally:
        server.close()
    out, err = process.communicate(b"\n", timeout=60)
    assert (process.returncode, out) == (0, b"gone\n")
    assert b"the bucket cannot be used" in err
    assert b"panic" not in err


def test_a_probe_finds_nothing_wrong_and_leaves_nothing(objects: Objects) -> None:
    assert list(probed(objects, "0123456789abcdef")) == []
    assert list(objects.below(".probe")) == []


@pytest.mark.parametrize(
    "fault,lacking",
    [
        (
            "careless",
            [
                "it overwrites an object that is to be new",
                "it overwrites an object that changed since it was read",
            ],
        ),
        ("forgetful", ["it does not keep the metadata of objects"]),
    ],
)
def test_a_probe_names_each_guarantee_that_does_not_hold(objects: Objects, fault: str, lacking: list[str]) -> None:
    SERVERS.buckets().fail(fault, "PUT", 100)
    try:
        assert list(probed(objects, "0123456789abcdef")) == lacking
    finally:
        SERVERS.buckets().fail(fault, "PUT", 0)


def test_the_object_that_stands_for_a_folder_in_another_tool_is_none(
    address: BucketAddress, objects: Objects, files: BucketFiles
) -> None:
    """Consoles of buckets make an empty object for a folder, whose key ends with a slash."""
    SERVERS.buckets().ask("PUT", f"/{address.name}/files/public/a/")
    files.keep(shared("public", PUBLIC, "a", "x"), b"x", DIRTY, refs=(CallRef("c", "s"),))
    with pytest.raises(AbsentError):
        files.take(KeptName(shared("public", PUBLIC, "a")))
    assert files.take(KeptName(shared("public", PUBLIC, "a"), folder=True)).content is None
    assert objects.folder("files/public") == ([], ["a"])
    assert objects.folder("files/public/a")[0] == [".label", "x"]
    assert {name.place.name for name in files.kept() if not name.folder} == {"a/x"}
