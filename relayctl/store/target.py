"""A broker's address, read from a URL: where it is, what kind it is, and what may be shown of it.

Connects to nothing and knows nothing of the client library; no text it makes contains a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from relayctl.errors import UsageError

_HELP = (
    "give --redis or RELAYCTL_REDIS_URL as redis://HOST:PORT/DB, rediss://…, unix:///PATH?db=N, "
    "redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB or redis+cluster://HOST:PORT,HOST:PORT; "
    "in a user or password write / ? # @ : and % percent-encoded"
)
_MAX_PORT = 65_535
_TRUE, _FALSE = {"1", "true", "yes"}, {"0", "false", "no"}
_TLS_FILES = ("ca", "cert", "key")


class Kind(StrEnum):
    """How clients find the server that takes writes; the value is the URL's scheme."""

    TCP = "redis"
    TLS = "rediss"
    UNIX = "unix"
    SENTINEL = "redis+sentinel"
    CLUSTER = "redis+cluster"


_DEFAULT_PORT = {Kind.TCP: 6379, Kind.TLS: 6379, Kind.SENTINEL: 26379, Kind.CLUSTER: 6379}
_SEVERAL_HOSTS = re.compile(r"([a-z+]+)://([^/?#]*,[^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.IGNORECASE)
_OPTIONS = {
    Kind.TCP: {"db"},
    Kind.TLS: {"db", "verify", *_TLS_FILES},
    Kind.UNIX: {"db", "username", "password"},
    Kind.SENTINEL: {"db", "sentinel_username", "sentinel_password", "tls", "verify", *_TLS_FILES},
    Kind.CLUSTER: {"tls", "verify", *_TLS_FILES},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One broker address. `hosts` is empty for a unix socket; `service` is the name Sentinel watches."""

    kind: Kind
    hosts: tuple[tuple[str, int], ...] = ()
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    service: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    tls: bool = False
    verify: bool = True
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    @classmethod
    def parse(cls, url: str) -> Target:
        """Read a broker URL. UsageError for anything else, never echoing a part that may be a secret."""
        kind = _kind(url)
        parts = _split(url)
        options = _options(parts, kind)
        tls = kind is Kind.TLS or _flag(options, "tls", default=False)
        credentials, _, location = parts.netloc.rpartition("@")
        username, password = _credentials(credentials)
        path, service, db = _path(kind, parts, options)
        return cls(
            kind=kind,
            hosts=() if kind is Kind.UNIX else _hosts(location, kind),
            path=path,
            db=db,
            username=username or options.get("username"),
            password=password or options.get("password"),
            service=service,
            sentinel_username=options.get("sentinel_username"),
            sentinel_password=options.get("sentinel_password"),
            tls=tls,
            verify=_flag(options, "verify", default=True),
            **{name: options.get(name) for name in _TLS_FILES},
        )

    @classmethod
    def unix(cls, path: str) -> Target:
        """The server that listens on the socket `path`."""
        return cls(kind=Kind.UNIX, path=path)

    @property
    def display(self) -> str:
        """A URL with stars for the password: safe to show, and enough to connect where there is none."""
        if self.kind is Kind.UNIX:
            return f"unix://{quote(self.path or '')}" + (f"?db={self.db}" if self.db else "")
        credentials = ""
        if self.username or self.password:
            credentials = quote(self.username or "", safe="") + (":***" if self.password else "") + "@"
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        tail = f"/{quote(self.service)}" if self.service else ""
        if self.db:
            tail += f"/{self.db}"
        return f"{self.kind}://{credentials}{hosts}{tail}"


def _refuse(what: str, way_out: str = _HELP) -> NoReturn:
    raise UsageError(what, help=way_out)


def _kind(url: str) -> Kind:
    scheme, separator, _rest = url.strip().partition("://")
    # Without a separator the text before a colon may be a user or a password, so it is not shown.
    if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,30}", scheme):
        _refuse("the broker URL has no scheme")
    try:
        return Kind(scheme.lower())
    except ValueError:
        pass
    if scheme.lower() in {"valkey", "valkeys"}:
        right = "redis" if scheme.lower() == "valkey" else "rediss"
        _refuse(
            f"the broker URL begins with {scheme}://, which is not a scheme here",
            f"Valkey speaks the same protocol: write {right}:// and keep the rest",
        )
    if scheme.lower() in {"rediss+sentinel", "rediss+cluster"}:
        _refuse(
            f"the broker URL begins with {scheme}://, which is not a scheme here",
            f"write {scheme.lower().replace('rediss', 'redis')}://…?tls=yes",
        )
    _refuse(f"the broker URL begins with {scheme}://, which is not a scheme here")


def _split(url: str) -> SplitResult:
    try:
        # Some releases of Python refuse a bracket that does not begin the host, as the second of several has it.
        several = _SEVERAL_HOSTS.fullmatch(url.strip())
        if several is None:
            parts = urlsplit(url.strip())
        else:
            scheme, *rest = (part or "" for part in several.groups())
            parts = SplitResult(scheme.lower(), *rest)
    except ValueError:
        _refuse("the broker URL cannot be read")
    if parts.fragment:
        _refuse("the broker URL contains a # outside its percent-encoded parts")
    return parts


def _options(parts: SplitResult, kind: Kind) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _OPTIONS[kind]:
            # A password with an unencoded ? ends up here, so an odd name is not echoed.
            shown = f" {name}" if re.fullmatch(r"[a-z_]{2,24}", name) and value else ""
            _refuse(
                f"the broker URL has an unknown option{shown}",
                f"{kind}:// takes {', '.join(sorted(_OPTIONS[kind]))}; percent-encode a ? in a password",
            )
        options[name] = value
    return options


def _flag(options: dict[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name)
    if value is None:
        return default
    if value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    _refuse(f"the option {name} of the broker URL is neither yes nor no")


def _credentials(text: str) -> tuple[str | None, str | None]:
    username, _, password = text.partition(":")
    return unquote(username) or None, unquote(password) or None


def _hosts(location: str, kind: Kind) -> tuple[tuple[str, int], ...]:
    hosts = tuple(_host(text, kind) for text in location.split(","))
    if len(hosts) > 1 and kind in {Kind.TCP, Kind.TLS}:
        _refuse("the broker URL names several hosts", "use redis+sentinel:// or redis+cluster:// for several")
    return hosts


def _host(text: str, kind: Kind) -> tuple[str, int]:
    # The text is not echoed: an unencoded / or @ in a password moves parts of it here.
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]\s]+)(?::([0-9]{1,5}))?", text)
    if match is None:
        _refuse("the host and port of the broker URL cannot be read")
    port = int(match[2]) if match[2] else _DEFAULT_PORT[kind]
    if not 0 < port <= _MAX_PORT:
        _refuse(f"the port of the broker URL is not between 1 and {_MAX_PORT}")
    return unquote(match[1].strip("[]")), port


def _path(kind: Kind, parts: SplitResult, options: dict[str, str]) -> tuple[str | None, str | None, int]:
    """(socket path, Sentinel service, database number)."""
    if kind is Kind.UNIX:
        path = unquote(parts.path)
        if parts.netloc.rpartition("@")[2] or len(path) < 2:
            _refuse("the broker URL names no absolute socket path", "write unix:///PATH, with three slashes")
        return path, None, _database(options.get("db", ""))
    pieces = [unquote(piece) for piece in parts.path.split("/") if piece]
    service = None
    if kind is Kind.SENTINEL:
        if not pieces:
            _refuse("the broker URL does not say which master Sentinel shall be asked for")
        service = pieces.pop(0)
    if len(pieces) > 1:
        _refuse("the path of the broker URL has too many parts")
    db = _database(pieces[0] if pieces else options.get("db", ""))
    if kind is Kind.CLUSTER and db:
        _refuse("the broker URL asks for a database, and Cluster has only 0", "leave the number out")
    return None, service, db


def _database(text: str) -> int:
    if not text:
        return 0
    if not re.fullmatch(r"[0-9]{1,5}", text):
        _refuse("the database of the broker URL is not a number")
    return int(text)
