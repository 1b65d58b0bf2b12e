"""Who may ask: every request names this server, comes from its own page, and has a token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from http import HTTPStatus
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"
Role = Literal["owner", "guest"]  # a guest only looks on


class Refusal(NamedTuple):
    """Why a request is turned away."""

    status: HTTPStatus
    reason: str


class Access:
    """Checks requests to a server that listens on `host` and `port`; no token: none is needed.

    The guests' token is made from the owner's, which cannot be had from it.
    """

    def __init__(self, host: str, port: int, token: str) -> None:
        self._port, self._token = port, token
        digest = hmac.new(token.encode(), b"guest", hashlib.sha256)
        self.guest_token = digest.hexdigest()[:32] if token else ""
        self._loopback = is_loopback(host)
        self._names = {"localhost", host.lower()}
        if not self._loopback:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
        self._address = f"http://{_bracketed(shown)}:{port}/"
        self.url = self._with_token(token)

    @property
    def guest_url(self) -> str:
        """Where the page is for those who may only look on; empty where everybody is an owner."""
        return self._with_token(self.guest_token) if self._token else ""

    def role(self, token: str) -> Role | None:
        """Return what a token entitles to; None: to nothing."""
        if not self._token or _same(token, self._token):
            return "owner"
        return "guest" if _same(token, self.guest_token) else None

    def refusal(self, host: str, origin: str | None, token: str) -> Refusal | None:
        """Return why a request with these headers and this token is refused; None if it is not."""
        if not self.is_own_host(host):
            return Refusal(HTTPStatus.MISDIRECTED_REQUEST, "unknown host")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            return Refusal(HTTPStatus.FORBIDDEN, "another origin")
        if self.role(token) is None:
            return Refusal(HTTPStatus.UNAUTHORIZED, "wrong or missing token")
        return None

    def is_own_host(self, host: str) -> bool:
        """Tell whether a Host header names this server.

        A page of another site can reach us under a name of its own that resolves to our address;
        it cannot do so under an address.
        """
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self._port or parts.username is not None or parts.path:
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback

    def _with_token(self, token: str) -> str:
        return f"{self._address}?token={token}" if token else self._address


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _same(given: str, token: str) -> bool:
    """Compare in a time that tells nothing."""
    return hmac.compare_digest(given.encode(errors="replace"), token.encode())


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
