"""The certificates by which HTTP clients know servers: read once in a process, and shared by all clients.

To read them takes as long as some twenty short requests, and an application has a client for each kind of server.
"""

import ssl
from functools import cache

import httpx2


@cache
def trust(*, environment: bool = True) -> ssl.SSLContext:
    """Return the certificates of the operating system; the first call reads them, and blocks meanwhile.

    With `environment`, `SSL_CERT_FILE` and `SSL_CERT_DIR` take their place, as they were when first asked for.
    """
    return httpx2.create_ssl_context(trust_env=environment)
