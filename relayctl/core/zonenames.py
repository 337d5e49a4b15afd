"""What a wrong zone name was meant to be: by case, blanks, city, abbreviation, offset or spelling. It opens no zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache

from relayctl.core.counting import counted

LOCAL_NAMES = frozenset({"local", "localtime", "posixrules", "factory", "system", "host", ":/etc/localtime"})
_ABBREVIATIONS = {
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
    "CST": "America/Chicago",
    "CDT": "America/Chicago",
    "MDT": "America/Denver",
    "EDT": "America/New_York",
    "AKST": "America/Anchorage",
    "BST": "Europe/London",
    "CEST": "Europe/Paris",
    "EEST": "Europe/Athens",
    "WEST": "Europe/Lisbon",
    "MSK": "Europe/Moscow",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "KST": "Asia/Seoul",
    "SGT": "Asia/Singapore",
    "AEST": "Australia/Sydney",
    "AEDT": "Australia/Sydney",
    "NZST": "Pacific/Auckland",
    "Z": "UTC",
}
_OFFSET = re.compile(r"(?:UTC|GMT)?\s*([+-])\s*0?([0-9]{1,2})(?::?([0-9]{2}))?", re.IGNORECASE)
_LONGEST = 64
_NEAR, _AHEAD = 0.85, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyNames:
    """Names to offer, best first, and whether the first is certain to be what was meant."""

    names: tuple[str, ...]
    is_sure: bool
    help: str

    @property
    def best(self) -> str | None:
        """The one name to offer as an edit, where no other comes close to it."""
        return self.names[0] if self.is_sure or len(self.names) == 1 else None


def likely_names(name: str, known: frozenset[str]) -> LikelyNames:
    """The nearest of the known names."""
    text = re.sub(r"\s+", "_", name.strip()[:_LONGEST])
    bare = re.sub(r"^:?(?:/usr/share/zoneinfo/|posix/|right/)", "", text)
    by_case = _by_lowered(known)
    exact = by_case.get(bare.replace("-", "_").lower()) or by_case.get(bare.lower())
    if exact is not None:
        why = " (names are written exactly so)" if bare == text else " (without a folder before it)"
        return LikelyNames(names=(exact,), is_sure=True, help=f'write "{exact}"{why}')
    offset = _OFFSET.fullmatch(name.strip()[:_LONGEST])
    if offset is not None:
        sign, hours, minutes = offset.groups()
        return _by_offset(sign, hours, minutes, known)
    found = _by_city(bare, known) or _by_abbreviation(bare, known) or _by_spelling(bare, known)
    if found:
        listed = " or ".join(f'"{candidate}"' for candidate in found)
        return LikelyNames(names=found, is_sure=False, help=f"did you mean {listed}?")
    return LikelyNames(
        names=(), is_sure=False, help='use an IANA name such as "Europe/Rome" or "UTC"; an offset or a path is none'
    )


def _by_offset(sign: str, hours: str, minutes: str | None, known: frozenset[str]) -> LikelyNames:
    if not int(hours) and not int(minutes or 0):
        return LikelyNames(names=("UTC",), is_sure=True, help='write "UTC"')
    # The names under Etc/ count westwards, so the sign turns round.
    etc = f"Etc/GMT{'-' if sign == '+' else '+'}{int(hours)}"
    if int(minutes or 0) or etc not in known:
        return LikelyNames(
            names=(), is_sure=False, help='an offset is no zone; name a place that keeps it, such as "Asia/Kolkata"'
        )
    return LikelyNames(
        names=(etc,),
        is_sure=False,
        help=f'name a place, or write "{etc}" for {counted(int(hours), "hour")} '
        f"{'ahead of' if sign == '+' else 'behind'} UTC "
        "(the sign in these names is reversed)",
    )


def _by_city(text: str, known: frozenset[str]) -> tuple[str, ...]:
    city = text.rpartition("/")[2].lower()
    matches = [name for name in sorted(known) if "/" in name and name.rpartition("/")[2].lower() == city]
    return tuple(sorted(matches, key=lambda name: (name.count("/"), len(name)))[:3])


def _by_abbreviation(text: str, known: frozenset[str]) -> tuple[str, ...]:
    meant = _ABBREVIATIONS.get(text.upper())
    return (meant,) if meant in known else ()


def _by_spelling(text: str, known: frozenset[str]) -> tuple[str, ...]:
    lowered = _by_lowered(known)
    close = get_close_matches(text.lower(), lowered, n=3, cutoff=0.75)
    if close:
        return tuple(lowered[one] for one in _outstanding(text.lower(), close))
    cities: dict[str, str] = {}
    for name in sorted(known):
        cities.setdefault(name.rpartition("/")[2].lower(), name)
    city = text.rpartition("/")[2].lower()
    near = get_close_matches(city, cities, n=3, cutoff=0.75)
    return tuple(cities[one] for one in _outstanding(city, near))


def _outstanding(word: str, close: list[str]) -> list[str]:
    """The first alone, where it is much nearer to the word than the second."""
    likeness = [SequenceMatcher(None, word, one).ratio() for one in close[:2]]
    return close[:1] if len(likeness) == 2 and likeness[0] >= _NEAR and likeness[0] - likeness[1] >= _AHEAD else close


@lru_cache(maxsize=1)
def _by_lowered(known: frozenset[str]) -> dict[str, str]:
    return {name.lower(): name for name in sorted(known)}
