"""What looks like a secret: known token shapes, passwords in URLs, private keys, and names that promise one. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from enum import Enum
from functools import lru_cache


class SecretKind(Enum):
    """Why a text is taken for a secret, in the words of a message."""

    TOKEN = "looks like a live API key"  # noqa: S105  # words, not a secret
    NAMED = "looks like a secret by its name"
    URL = "is a URL with a password in it"
    KEY = "is a private key"


_TOKENS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}"
    r"|glpat-[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}"
    r"|sk-(?:[a-z]+-)*[A-Za-z0-9_-]{20,}"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|dop_v1_[a-f0-9]{40,}|hf_[A-Za-z0-9]{30,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r"|(?:hooks\.slack\.com/services/)[A-Za-z0-9/]{20,}"
    r")",
    re.ASCII,
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/@:?#\"']*:([^\s/@\"']+)@", re.ASCII)
_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----", re.ASCII)
_NAMED = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|PASS|APIKEY|API_KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|"
    r"AUTH_KEY|SIGNING_KEY|ENCRYPTION_KEY|CREDENTIALS?|CLIENT_SECRET|SECRET_ACCESS_KEY)$",
    re.ASCII,
)
_PLACEHOLDER = re.compile(
    r"\$\{.*\}|\$\w+|\{\{.*\}\}|<.*>|%\w+%|x{3,}|\*+|change[-_ ]?me|todo|none|null|example|dummy|placeholder|redacted|"
    r"password|secret|token|true|false|[a-z]+(?:[-_.][a-z]+){1,}",
    re.ASCII | re.IGNORECASE,
)
_VALUE_KEYS = frozenset(
    ("env", "envs", "environ", "environment", "environments", "envvars", "variables", "secret", "secrets")
)
_SHORTEST_PASSWORD = 6
_SHORTEST_NAMED = 12
_LEAST_ENTROPY = 3.0
_LONGEST_JUDGED = 8192


def secret_in(name: str, text: str) -> SecretKind | None:
    """Why the value `text` of a key `name` is taken for a secret; None when it is not."""
    if len(text) < _SHORTEST_PASSWORD:
        return None
    # The patterns can take quadratic time, so a long text is judged by its beginning.
    text = text[:_LONGEST_JUDGED]
    if "-----BEGIN" in text and _PRIVATE_KEY.search(text):
        return SecretKind.KEY
    if "://" in text:
        found = _URL.search(text)
        if found is not None and not _PLACEHOLDER.fullmatch(found[1]):
            return SecretKind.URL
    if len(text) >= _SHORTEST_NAMED and _TOKENS.search(text):
        return SecretKind.TOKEN
    return SecretKind.NAMED if promises_secret(name) and _is_random(name, text) else None


def starred(text: str) -> str:
    """The text with the tokens and passwords in it as stars, as many as they have characters."""
    if len(text) < _SHORTEST_NAMED or len(text) > _LONGEST_JUDGED:
        return text
    text = _TOKENS.sub(lambda found: "*" * len(found[0]), text)
    return _URL.sub(_starred_password, text) if "://" in text else text


def _starred_password(found: re.Match[str]) -> str:
    if _PLACEHOLDER.fullmatch(found[1]):
        return found[0]
    begin = found.start(1) - found.start()
    return f"{found[0][:begin]}{'*' * len(found[1])}{found[0][begin + len(found[1]) :]}"


@lru_cache(maxsize=1024)
def promises_secret(name: str) -> bool:
    """Whether a key of this name is likely to hold a secret, whatever its value."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return _NAMED.search(re.sub(r"[^A-Za-z0-9]+", "_", words).upper()) is not None


def keeps_values(name: str) -> bool:
    """Whether a key of this name, right or mistyped, holds environment values or secrets, which are never shown."""
    return re.sub(r"[^a-z]+", "", name.lower()) in _VALUE_KEYS


def hides_next(word: str) -> bool:
    """Whether a word of a command, such as `--password`, says that the word after it is a secret."""
    return word.startswith("-") and "=" not in word and promises_secret(word)


def hides_rest(word: str) -> bool:
    """Whether a word such as `--token=…` or `DB_PASSWORD=…` carries a secret behind its sign."""
    name, sign, _ = word.partition("=")
    return bool(sign) and len(name) < _SHORTEST_NAMED * 4 and promises_secret(name)


def _is_random(name: str, text: str) -> bool:
    if _PLACEHOLDER.fullmatch(text) or text.startswith(("/", "./", "file:", "http://", "https://")):
        return False
    if re.search(r"PASS|PWD", name, re.IGNORECASE):
        return True
    return len(text) >= _SHORTEST_NAMED and _entropy(text) >= _LEAST_ENTROPY


def _entropy(text: str) -> float:
    """Bits for each character by the text's own frequencies."""
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in Counter(text).values())
