"""Which network addresses are public, and how a web address is taken apart and put together again."""

import pytest

from bot.tools.web.address import AddressError, is_public, parsed


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111"])
def test_a_public_address(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.com",
        "0.0.0.0",  # noqa: S104 - nothing is bound to it
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "168.63.129.16",
        "172.16.0.1",
        "192.0.0.192",
        "192.168.1.1",
        "192.88.99.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.1.2.3",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:93.184.216.34",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::5db8:d822",
        "64:ff9b:1::7f00:1",
        "2001:0:5db8:d822::1",
        "2001:db8::1",
        "2001:10::1",
        "3fff::1",
        "2002:7f00:1::",
        "2002:5db8:d822::",
        "2606:4700::5efe:7f00:1",
        "2606:4700::200:5efe:7f00:1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_an_address_that_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "text, whole, authority, granted, there",
    [
        ("HTTPS://Example.COM", "https://example.com/", "example.com", "example.com", "https://1.1.1.1:443/"),
        ("http://a.b.:80?x=1#y", "http://a.b/?x=1", "a.b", "a.b:80", "http://1.1.1.1:80/?x=1"),
        (
            "https://a.b:8443/ü%20x",
            "https://a.b:8443/%C3%BC%20x",
            "a.b:8443",
            "a.b:8443",
            "https://1.1.1.1:8443/%C3%BC%20x",
        ),
        (
            "http://[2606:4700::1]/",
            "http://[2606:4700::1]/",
            "[2606:4700::1]",
            "[2606:4700::1]:80",
            "http://1.1.1.1:80/",
        ),
        (
            "https://[2606:4700::1]:8443/",
            "https://[2606:4700::1]:8443/",
            "[2606:4700::1]:8443",
            "[2606:4700::1]:8443",
            None,
        ),
    ],
)
def test_an_address_is_put_together_from_its_parts(
    text: str, whole: str, authority: str, granted: str, there: str | None
) -> None:
    place = parsed(text)
    assert (str(place), place.authority, place.granted_as) == (whole, authority, granted)
    assert there is None or place.at("1.1.1.1") == there
    assert place.at("2606:4700::2").startswith(f"{place.scheme}://[2606:4700::2]:")
    assert parsed(str(place)) == place


@pytest.mark.parametrize(
    "text",
    [
        "http://a.b:",
        "http://a.b:123456/",
        "http://a..:x/",
        "https:///a",
        "http://.",
        "http://a.b@/",
        # What some resolvers take for a network address, and others do not.
        "http://2130706433/",
        "http://127.1/",
        "http://0x7f.0.0.0x1/",
        "http://0177.0.0.01/",
        # Letters that are equal to one of ASCII in the other case.
        "https://example\u017f.com/",
        "https://\u212aelvin.example/",
        "http\u017f://example.com/",
    ],
)
def test_an_address_that_cannot_be_taken_apart(text: str) -> None:
    with pytest.raises(AddressError):
        parsed(text)
