"""Addresses of webhooks: on the internet with TLS, on this machine also without."""

import pytest
from pydantic import ValidationError

from bot.config.channels import WebhookSettings


@pytest.mark.parametrize(
    "url", ["https://bot.example/t", "http://127.0.0.1:8443/t", "http://localhost", "http://[::1]:8/"]
)
def test_a_webhook_address_is_taken(url: str) -> None:
    assert WebhookSettings(url=url, port=8443).url == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://bot.example/t", "http://127.0.0.1.bot.example/", "http://10.0.0.1/", "ftp://127.0.0.1/"),
        *("http://me:secret@127.0.0.1/", "http://localhost@bot.example/", "http://[::1", "127.0.0.1"),
    ],
)
def test_a_webhook_address_elsewhere_needs_tls(url: str) -> None:
    with pytest.raises(ValidationError, match="begin with `https://`"):
        WebhookSettings(url=url, port=8443)
