"""Every setting in one table: key, flag, variable, default, meaning. The only module that reads them from outside.

A value comes from a flag, else a `RELAYCTL_*` variable, else `relayctl.toml`, else the default, and knows which.
It opens no connection and creates no directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from relayctl.core.duration import DurationError, format_duration, parse_duration
from relayctl.core.interval import parse_interval
from relayctl.core.names import why_not_a_name
from relayctl.errors import UsageError
from relayctl.settingsfile import Entry, closest, entries_of

CONFIG_FILE = "relayctl.toml"
CONFIG_VARIABLE = "RELAYCTL_CONFIG"
COMPLETION_VARIABLE = "_RELAYCTL_COMPLETE"
_INTERVAL_BOUNDS = (timedelta(seconds=1), timedelta(days=1))


class Origin(Enum):
    """Where a value was taken from."""

    FLAG = "flag"
    VARIABLE = "variable"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Lenient:
    """A parsed value that was not what its author meant, with the warning to print."""

    value: Any
    warning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row. `default` is written as a user would write it; None means "not set".

    `is_shared` settings are options of every command, the others only of `serve`.
    """

    key: str
    default: str | None
    parse: Callable[[str], Any]
    help: str
    metavar: str
    flag: str | None = None
    show: Callable[[Any], str] = str
    absent: str = ""
    is_shared: bool = False
    is_switch: bool = False
    """Whether its flag stands alone, and means yes."""

    @property
    def variable(self) -> str:
        """The environment variable of this setting."""
        return f"RELAYCTL_{self.key.upper()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force. `state_dir` is `.relayctl` beside the apps directory unless it was given."""

    apps: Path
    state_dir: Path
    redis_url: str | None
    namespace: str
    secrets_dir: Path | None
    git: str | None
    git_ref: str
    git_path: str
    git_interval: timedelta | None
    git_token_file: Path | None
    webhook_secret_file: Path | None
    resync_interval: timedelta | None
    debounce: timedelta
    drain: timedelta
    http: str | None
    max_timeout: timedelta
    no_build: bool
    build_timeout: timedelta
    max_event_bytes: int
    max_bundle_bytes: int
    catch_up_horizon: timedelta
    min_replica_acks: int
    keep_outputs: int
    keep_output_bytes: int
    log_format: str
    color: str
    config: Path | None
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...]

    def shown(self, key: str) -> str:
        """The value of `key` for people, without a password."""
        value = getattr(self, key)
        return SETTINGS[key].absent if value is None else SETTINGS[key].show(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """What the environment says about the terminal, before anyone looks at the stream itself."""

    allows_color: bool
    is_unicode: bool
    columns: int | None


def load(flags: Mapping[str, str], *, config: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force; `flags` holds only what was given on the command line, by key."""
    environ = os.environ if environ is None else environ
    file, entries = _config_entries(config, environ)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    warnings: list[str] = []
    for setting in SETTINGS.values():
        text, origin = _choose(setting, flags, environ, entries)
        value = None if text is None else _parsed(setting, text, origin, entries)
        if isinstance(value, Lenient):
            warnings.append(f"{_origin_name(setting, origin, entries)}: {value.warning}")
            value = value.value
        values[setting.key], origins[setting.key] = value, origin
    if values["state_dir"] is None:
        # Not resolved: a linked apps directory may point elsewhere tomorrow, and the state must not move with it.
        values["state_dir"] = Path(os.path.abspath(values["apps"])).parent / ".relayctl"  # noqa: PTH100
    return Settings(**values, config=file, origins=origins, warnings=tuple(warnings))


def terminal(environ: Mapping[str, str] | None = None) -> Terminal:
    """Colour is off under NO_COLOR and a dumb terminal; symbols are ASCII where the locale is not UTF-8."""
    environ = os.environ if environ is None else environ
    columns = environ.get("COLUMNS", "")
    return Terminal(
        allows_color=not environ.get("NO_COLOR") and environ.get("TERM") != "dumb",
        is_unicode=_is_unicode(environ),
        columns=int(columns) if re.fullmatch(r"[1-9][0-9]{0,3}", columns, re.ASCII) else None,
    )


def own_environ() -> Mapping[str, str]:
    """The environment of this process, for programs that are started with a part of it."""
    return os.environ


def is_completing() -> bool:
    """Whether a shell called the program for completions and not for a command."""
    return bool(os.environ.get(COMPLETION_VARIABLE))


def mask_url(text: str) -> str:
    """A URL without its passwords, also where one holds characters that should have been percent-encoded."""
    text = re.sub(r"(?<=://)([^/@:]*):.*@", r"\1:***@", text)
    return re.sub(r"([?&][^=?&]*(?:password|token|secret)=)[^&]*", r"\1***", text, flags=re.IGNORECASE)


def _choose(
    setting: Setting, flags: Mapping[str, str], environ: Mapping[str, str], entries: Mapping[str, Entry]
) -> tuple[str | None, Origin]:
    if setting.key in flags:
        return flags[setting.key], Origin.FLAG
    # An empty variable is how a container file says "not set".
    if environ.get(setting.variable):
        return environ[setting.variable], Origin.VARIABLE
    if setting.key in entries:
        return entries[setting.key].text, Origin.FILE
    return setting.default, Origin.DEFAULT


def _parsed(setting: Setting, text: str, origin: Origin, entries: Mapping[str, Entry]) -> Any:
    try:
        return setting.parse(text)
    except ValueError as error:
        raise UsageError(
            f"{_origin_name(setting, origin, entries)}: {error}", help=f"{setting.key}: {setting.help}"
        ) from None


def _origin_name(setting: Setting, origin: Origin, entries: Mapping[str, Entry]) -> str:
    if origin is Origin.FLAG:
        return setting.flag or setting.key
    if origin is Origin.VARIABLE:
        return setting.variable
    return f"{entries[setting.key].place}: {setting.key}" if origin is Origin.FILE else f"default of {setting.key}"


def _config_entries(config: Path | None, environ: Mapping[str, str]) -> tuple[Path | None, Mapping[str, Entry]]:
    named = config or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    file = named or Path(CONFIG_FILE)
    entries = entries_of(file, {key: setting.is_switch for key, setting in SETTINGS.items()})
    if entries is not None:
        return file, entries
    if named is None:
        return None, {}
    raise UsageError(f"{file}: no such file", help=f"create it, or leave out --config and {CONFIG_VARIABLE}")


def _is_unicode(environ: Mapping[str, str]) -> bool:
    lang = environ.get("LANG", "")
    ctype = environ.get("LC_CTYPE", "")
    if ctype == "C.UTF-8" and lang in {"", "C", "POSIX"}:
        ctype = ""  # the interpreter itself wrote that when it found the C locale
    effective = environ.get("LC_ALL") or ctype or lang
    return "utf" in effective.lower()


def _shown(text: str) -> str:
    """A bad value for an error message, unless it could hold a credential."""
    return "the value" if _is_suspicious(text) else f'"{text}"'


def _is_suspicious(text: str) -> bool:
    return "://" in text or "@" in text or len(text) > 40 or not text.isprintable()


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError("expected a path")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"there is no home directory for {_shown(text)}") from None


def _text(text: str) -> str:
    # What it means is said where it is used, and never repeated: a URL may hold a password.
    if not text.strip() or "\0" in text:
        raise ValueError("expected a text")
    return text


def _without_user(url: str) -> str:
    return re.sub(r"(?<=://).*@", "", mask_url(url))


def _namespace(text: str) -> str:
    if reason := why_not_a_name(text):
        raise ValueError(
            "not a name: it holds characters that are not allowed" if "://" in text else f"not a name: {reason}"
        )
    return text


def _url(text: str) -> str:
    schemes = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster")
    if not re.match(rf"({'|'.join(map(re.escape, schemes))})://.", text):
        raise ValueError(f"expected a URL that begins with {', '.join(f'{scheme}://' for scheme in schemes)}")
    return text


def _address(text: str) -> str:
    port = re.fullmatch(r"(?:\S*:)?([0-9]{1,5})", text, re.ASCII)
    if port is None or not 0 <= int(port.group(1)) <= 65535:
        raise ValueError(f"expected an address such as 127.0.0.1:8080, found {_shown(text)}")
    return text if ":" in text else f"127.0.0.1:{text}"


def _duration(text: str) -> timedelta:
    try:
        value = parse_duration(text)
    except DurationError:
        raise ValueError(f"expected a duration such as 30s or 1h30m, found {_shown(text)}") from None
    if value < timedelta(0):
        raise ValueError(f"expected a duration of zero or more, found {_shown(text)}")
    return value


def _positive_duration(text: str) -> timedelta:
    value = _duration(text)
    if value == timedelta(0):
        raise ValueError("expected a duration above zero")
    return value


def _count(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII) or not low <= int(text) <= high:
            raise ValueError(f"expected a whole number from {low} to {high}, found {_shown(text)}")
        return int(text)

    return parse


def _switch(text: str) -> bool:
    word = text.strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off"}:
        return False
    raise ValueError(f"expected true or false, found {_shown(text)}")


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            close = closest(text, allowed)
            hint = f'; did you mean "{close}"?' if close else ""
            raise ValueError(f"expected one of {', '.join(allowed)}, found {_shown(text)}{hint}")
        return text

    return parse


def parse_resync(text: str) -> timedelta | Lenient | None:
    """The interval of the periodic pass: None for `off` and zero (demands only); a typo warns and keeps the default."""
    return _interval(text, _RESYNC_DEFAULT)


def parse_git_interval(text: str) -> timedelta | Lenient | None:
    """The same for fetching."""
    return _interval(text, _GIT_DEFAULT)


def _interval(text: str, usual: str) -> timedelta | Lenient | None:
    low, high = _INTERVAL_BOUNDS
    default = parse_duration(usual)
    found = parse_interval(text, default=default, low=low, high=high, is_redacted=_is_suspicious(text))
    return Lenient(found.every, found.warning) if found.warning else found.every


_RESYNC_DEFAULT = "30s"
_GIT_DEFAULT = "60s"
_ROWS = (
    Setting(key="apps", flag="--apps", default="apps", parse=_path, metavar="DIR", is_shared=True,
            help="directory with one folder per app"),
    Setting(key="state_dir", flag="--state-dir", default=None, parse=_path, metavar="DIR", is_shared=True,
            help="where this machine keeps its state; default .relayctl beside the apps directory"),
    Setting(key="redis_url", flag="--redis", default=None, parse=_url, metavar="URL", is_shared=True, show=mask_url,
            help="broker to use; default is the embedded one of the state directory"),
    Setting(key="namespace", flag="--namespace", default="relay", parse=_namespace, metavar="NAME", is_shared=True,
            help="prefix of every key in the broker"),
    Setting(key="log_format", flag="--log-format", default="auto", parse=_choice("auto", "text", "json"),
            metavar="text|json", is_shared=True, help="form of log lines; default text on a terminal, else json"),
    Setting(key="color", flag="--color", default="auto", parse=_choice("auto", "always", "never"),
            metavar="WHEN", is_shared=True, help="colour: auto, always or never"),
    Setting(key="secrets_dir", flag="--secrets-dir", default=None, parse=_path, metavar="DIR",
            help="directory with one file per secret reference, asked before the local store"),
    Setting(key="git", flag="--git", default=None, parse=_text, metavar="URL", show=_without_user,
            help="git repository to take the apps from, in place of a directory"),
    Setting(key="git_ref", flag="--ref", default="main", parse=_text, metavar="REF", show=mask_url,
            help="branch, tag or commit of --git to follow"),
    Setting(key="git_path", flag="--path", default="apps", parse=_text, metavar="DIR", show=mask_url,
            help="folder of the apps in that repository; . for all of it"),
    Setting(key="git_interval", flag="--git-interval", default=_GIT_DEFAULT, parse=parse_git_interval,
            metavar="INTERVAL", show=format_duration, absent="off",
            help="how often it is fetched; off for demands only"),
    Setting(key="git_token_file", flag="--git-token-file", default=None, parse=_path, metavar="FILE",
            help="file with a token for that repository, where git's own means do not let it in"),
    Setting(key="webhook_secret_file", flag="--webhook-secret-file", default=None, parse=_path, metavar="FILE",
            help="file with the secret that signs demands at POST /hooks/git (needs --http)"),
    Setting(key="resync_interval", flag="--resync", default=_RESYNC_DEFAULT, parse=parse_resync, metavar="INTERVAL",
            show=format_duration, absent="off", help="how often the whole tree is compared; off for demands only"),
    Setting(key="debounce", flag="--debounce", default="50ms", parse=_duration, metavar="DURATION",
            show=format_duration, help="quiet time after a file event before the tree is read"),
    Setting(key="drain", flag="--drain", default="25s", parse=_duration, metavar="DURATION", show=format_duration,
            help="how long running handlers may go on after a stop was asked for"),
    Setting(key="http", flag="--http", default=None, parse=_address, metavar="ADDR",
            help="address for metrics and probes, such as 127.0.0.1:9100"),
    Setting(key="max_timeout", flag="--max-timeout", default="1h", parse=_positive_duration, metavar="DURATION",
            show=format_duration, help="cap on every handler's timeout"),
    Setting(key="no_build", flag="--no-build", default="false", parse=_switch, metavar="true|false", is_switch=True,
            show=lambda value: str(value).lower(),
            help="build no environments: every app runs on what the worker runs on"),
    Setting(key="build_timeout", flag="--build-timeout", default="10m", parse=_positive_duration, metavar="DURATION",
            show=format_duration, help="how long building an app's environment may take"),
    Setting(key="max_event_bytes", flag="--max-event-bytes", default="262144", parse=_count(1024, 64 * 1024 * 1024),
            metavar="N", help="largest event that is accepted, in bytes"),
    Setting(key="max_bundle_bytes", flag="--max-bundle-bytes", default="8388608",
            parse=_count(64 * 1024, 256 * 1024 * 1024), metavar="N",
            help="largest release, packed, that is published or taken, in bytes"),
    Setting(key="catch_up_horizon", flag="--catch-up-horizon", default="24h", parse=_duration, metavar="DURATION",
            show=format_duration, help="how far back a missed firing is still caught up"),
    Setting(key="min_replica_acks", flag="--min-replica-acks", default="0", parse=_count(0, 16), metavar="N",
            help="replicas that must hold a publication before it counts"),
    Setting(key="keep_outputs", flag="--keep-outputs", default="50", parse=_count(0, 1000), metavar="N",
            help="attempts of a schedule or event handler whose output is kept; 0 keeps none"),
    Setting(key="keep_output_bytes", flag="--keep-output-bytes", default="268435456",
            parse=_count(1024 * 1024, 64 * 1024**3), metavar="N", help="bytes of output kept in the broker, in all"),
)  # fmt: skip
SETTINGS: Mapping[str, Setting] = {row.key: row for row in _ROWS}
"""The table, by key, in the order in which it is shown."""
