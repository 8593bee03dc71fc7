"""Who may ask: right host and origin, a method that reads, and the token or the cookie it was changed for.

The cookie is good below one path only, which nobody can guess: cookies know hosts, not ports, and another
server on the same host must not be sent it.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl

from clusterlab.runs.serving.wire import RefusedError, Request

COOKIE = "clusterlab"


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True, repr=False)
class Gate:
    """For a server on ``port``. ``mount`` is the path below which pages are."""

    port: int
    token: str = field(default_factory=_secret)
    cookie: str = field(default_factory=_secret)
    mount: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(12)}/")

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a browser says it asks."""
        return tuple(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    def check(self, request: Request) -> None:
        """Raise RefusedError unless the request may be answered to somebody who has the token."""
        self._check_host(request)
        if request.method not in ("GET", "HEAD"):
            raise RefusedError(
                HTTPStatus.METHOD_NOT_ALLOWED, "Pages are only read.", Allow="GET, HEAD"
            )
        if request.header("transfer-encoding") or request.header("content-length") not in (
            None,
            "0",
        ):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "A request to read carries nothing.")
        self._check_origin(request)

    def _check_host(self, request: Request) -> None:
        """Else a page of anywhere could give its own name our address, and read us (DNS rebinding)."""
        hosts = request.all_of("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            raise RefusedError(
                HTTPStatus.FORBIDDEN,
                f"Ask 127.0.0.1:{self.port}, localhost:{self.port} or [::1]:{self.port}; over ssh forward "
                f"the same port: ssh -L {self.port}:127.0.0.1:{self.port} HOST",
            )  # fmt: skip
        if not request.target.startswith("/"):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "A path is asked for, beginning with /.")

    def _check_origin(self, request: Request) -> None:
        origins = request.all_of("origin")
        foreign = any(origin not in {f"http://{host}" for host in self.hosts} for origin in origins)
        site = request.header("sec-fetch-site")
        if foreign or (site is not None and site not in ("none", "same-origin")):
            raise RefusedError(
                HTTPStatus.FORBIDDEN,
                "Another page asked. Type or paste the address into the browser instead.",
            )

    def bears_token(self, request: Request) -> bool:
        """Whether it is the first request, with the token: ``/?token=…``, and nothing else."""
        path, _, query = request.target.partition("?")
        if path != "/":
            return False
        try:
            fields = parse_qsl(query, strict_parsing=True, max_num_fields=1)
        except ValueError:
            return False
        return [name for name, _ in fields] == ["token"] and _same(fields[0][1], self.token)

    def admits(self, request: Request) -> bool:
        """Whether it has the cookie."""
        # Not http.cookies: it drops all of a header in which another server's cookie is not as it likes.
        pairs = (one.strip() for header in request.all_of("cookie") for one in header.split(";"))
        found = [pair.partition("=")[2] for pair in pairs if pair.partition("=")[0] == COOKIE]
        return len(found) == 1 and _same(found[0], self.cookie)

    def set_cookie(self) -> str:
        """The header's value."""
        return f"{COOKIE}={self.cookie}; Path={self.mount}; HttpOnly; SameSite=Strict"


def _same(given: str, right: str) -> bool:
    """In a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())
