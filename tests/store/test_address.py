"""Addresses of a store: what each says, and what is none."""

import pytest

from bot.core.errors import StoreError
from bot.store.servers.address import Kind, read_address


@pytest.mark.parametrize(
    "url, to, server, hosts",
    [
        ("redis://u:p@host:1/2?x=y", Kind.SERVER, "redis://u:p@host:1/2?x=y", ()),
        ("valkeys://host", Kind.SERVER, "rediss://host", ()),
        ("unix:///run/s.sock?db=1", Kind.SERVER, "unix:///run/s.sock?db=1", ()),
        ("redis+cluster://a", Kind.CLUSTER, "redis://host/?", (("a", 6379),)),
        ("redis+cluster://u:p%40x@a:1,b/0", Kind.CLUSTER, "redis://u:p%40x@host/0?", (("a", 1), ("b", 6379))),
        ("rediss+cluster://[::1]:7,[::2]/?x=1", Kind.CLUSTER, "rediss://host/?x=1", (("::1", 7), ("::2", 6379))),
        ("redis+sentinel://a,b:2/main", Kind.SENTINEL, "redis://host/?", (("a", 26379), ("b", 2))),
        ("valkey+sentinel://:p@a/m%2Fn/3", Kind.SENTINEL, "redis://:p@host/3?", (("a", 26379),)),
    ],
)
def test_what_an_address_says(url: str, to: Kind, server: str, hosts: tuple[tuple[str, int], ...]) -> None:
    read = read_address(url)
    assert (read.kind, read.server, read.hosts) == (to, server, hosts)
    assert read.encrypted == url.startswith(("rediss", "valkeys"))


def test_sentinels_have_a_password_of_their_own() -> None:
    read = read_address("redis+sentinel://u:p@a/main/1?sentinel_username=w&sentinel_password=s%26t&ssl_ca_certs=/ca")
    assert (read.service, dict(read.sentinel)) == ("main", {"username": "w", "password": "s&t"})
    assert read.server == "redis://u:p@host/1?ssl_ca_certs=%2Fca"
    assert "s&t" not in repr(read)
    assert "u:p" not in repr(read)


@pytest.mark.parametrize(
    "url, sentence, step",
    [
        ("", "not an address", "redis://host:6379/0"),
        ("http://hush@host", "not an address", "redis://host:6379/0"),
        ("redis+ring://hush@host", "not an address", "redis://host:6379/0"),
        ("unix+cluster://hush@host", "not an address", "redis+cluster://host:6379,host:6379"),
        ("redis+cluster://hush@", "not an address", "redis+cluster://host:6379,host:6379"),
        ("redis+cluster://hush@a,,b", "not an address", "redis+cluster://host:6379,host:6379"),
        ("redis+cluster://hush@a:x", "not an address", "redis+cluster://host:6379,host:6379"),
        ("redis+cluster://hush@a:65536", "not an address", "redis+cluster://host:6379,host:6379"),
        ("redis+cluster://hush@a/1", "one database only", "leave its number out"),
        ("redis+sentinel://hush@a", "does not name the service", "redis+sentinel://host:26379,host:26379/service"),
        ("redis+sentinel://hush@a/main/x", "not an address", "redis+sentinel://host:26379,host:26379/service"),
    ],
)
def test_what_is_no_address_is_told_without_its_password(url: str, sentence: str, step: str) -> None:
    with pytest.raises(StoreError, match=sentence) as caught:
        read_address(url)
    assert step in caught.value.next_step
    assert "hush" not in str(caught.value) + caught.value.next_step
