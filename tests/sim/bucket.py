"""A bucket with the protocol of S3 on loopback: moto's server, one request after another, with faults on demand.

moto looks at a condition and writes after that, so two writes at once could both count; a real server lets one win.
`python -m tests.sim.bucket` prints its port.

A fault is asked for by `POST /_fault?what=…&method=…&times=…`. `lost` carries a request out and answers 500, `denied`
answers 403, `token` only to a request with a token. `careless` ignores conditions, `forgetful` ignores metadata. `late`
keeps a request waiting: `held` waits until there is one, `release` lets it go on.
"""

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import parse_qs

FAULTS: Final = "/_fault"
_ANSWERS: Final = {
    "lost": ("500 Internal Server Error", b""),
    "denied": ("403 Forbidden", b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"),
}
_IGNORED: Final = {"careless": ("HTTP_IF_",), "forgetful": ("HTTP_X_AMZ_META_",)}
"""The headers that a fault ignores."""

_SECONDS: Final = 60.0


class Application:
    """The server's application, behind one lock."""

    def __init__(self) -> None:
        # The library takes seconds to import, and tests import the path of the faults from here.
        from moto.moto_server import werkzeug_app as moto  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

        self._inner: Any = moto.DomainDispatcherApplication(moto.create_backend_app)
        self._alone = threading.Condition()
        self._faults = list[tuple[str, str]]()
        self._held = 0

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._alone:
            if environ["PATH_INFO"] == FAULTS:
                self._ask(**{name: found[0] for name, found in parse_qs(environ["QUERY_STRING"]).items()})
                start("204 No Content", [])
                return [b""]
            fault = next((one for one in self._faults if one[1] == environ["REQUEST_METHOD"]), None)
            if fault is None:
                return list(self._inner(environ, start))
            self._faults.remove(fault)
            return self._failed(fault[0], environ, start)

    def _ask(self, what: str, method: str = "", times: str = "0") -> None:
        if what == "held":
            assert self._alone.wait_for(lambda: self._held > 0, _SECONDS)
        elif what == "release":
            self._held = 0
            self._alone.notify_all()
        else:
            self._faults = [(what, method)] * int(times)

    def _failed(self, what: str, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if what in _IGNORED:
            ignored = [name for name in environ if name.startswith(_IGNORED[what])]
            return list(self._inner({name: environ[name] for name in environ if name not in ignored}, start))
        if what == "late":
            self._held += 1
            self._alone.notify_all()
            assert self._alone.wait_for(lambda: self._held == 0, _SECONDS)
            return list(self._inner(environ, start))
        if what == "token" and "HTTP_X_AMZ_SECURITY_TOKEN" not in environ:
            return list(self._inner(environ, start))
        if what == "lost":
            list(self._inner(environ, _unheard))
        status, body = _ANSWERS["denied" if what == "token" else what]
        start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


def _unheard(*_: object) -> None:
    """Drop the head of an answer."""


def main() -> None:
    """Serve until killed."""
    from moto.moto_server import werkzeug_app as moto  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]
    from werkzeug.serving import make_server  # noqa: PLC0415 - as above

    server = make_server("127.0.0.1", 0, Application(), threaded=True, request_handler=moto.MotoRequestHandler)
    os.environ["MOTO_PORT"] = str(server.port)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
