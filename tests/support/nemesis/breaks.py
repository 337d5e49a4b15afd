"""Deliberate defects of a worker, one per promise that the judge watches: each is put into this process and no other.

Used by `worker_process.py`. A text that is to be replaced in a script must be there, so that no break is silently none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace


def acknowledge_early() -> None:
    """Entries are acknowledged and deleted when they are read, not when their last invocation has ended."""
    from relayctl.store.keys import GROUP
    from relayctl.store.stream import Stream

    read = Stream.read

    def deleting(self, *arguments, **more):
        entries = read(self, *arguments, **more)
        for entry in entries:
            self._client.xack(self._keys.events, GROUP, entry.id)
            self._client.xdel(self._keys.events, entry.id)
        return entries

    _replace(Stream, "read", deleting)


def skip_the_outbox() -> None:
    """A publication that failed is tried again, but not kept before that."""
    from relayctl.host.outbox import Outbox

    _replace(Outbox, "put", lambda self, intents, **more: None)


def drop_the_token_check() -> None:
    """The end of an attempt is taken from whoever tells it."""
    _change("finish", "owner ~= token or not state or attempt ~= tonumber(ARGV[9])", "not state")


def publish_before_registering() -> None:
    """What the files say is fired as soon as they are read, some seconds before the registry hears of it."""
    from relayctl.worker.arming import Arming
    from relayctl.worker.registrar import Registrar

    register = Registrar._register

    def late(self, proposals, own):
        now_ms = self._scheduler._time.now_ms()
        early = {}
        for item in proposals:
            known = self._heads.get((item.app, item.schedule))
            if known is not None and item.spec:
                early[item.app, item.schedule] = replace(
                    known, gen=known.gen + 1, hash=item.hash, spec=item.spec, from_ms=now_ms
                )
        if early:
            self._own |= own
            # The registry knows nothing of it, so it must not be asked which definitions may owe something.
            self._arming._generations = lambda head: (head.generation,)
            self._take(early)
            del self._arming._generations
            threading.Event().wait(4)
        return register(self, proposals, own)

    assert hasattr(Arming, "_generations")
    _replace(Registrar, "_register", late)
    _change("publish", "if not from then", "if false then")
    _change("publish", "if at * 1000 < from or (to and at * 1000 >= to) then", "if false then")


def close_without_comparing() -> None:
    """A closing overwrites what was published meanwhile."""
    _change("close", "redis.call('HSETNX', pub, ARGV[1], value)", "1 redis.call('HSET', pub, ARGV[1], value)")
    _change("close", "      own[#own + 1] = field\n", "      redis.call('HDEL', pub, field)\n")


def forget_a_lease() -> None:
    """Leases are not renewed while their attempts run."""
    from relayctl.worker.claimer import Claimer

    _replace(Claimer, "_renew", lambda self: None)


def judge_by_today() -> None:
    """A firing is judged by the definition in force now, not by the one under which it was published."""
    from relayctl.worker.consumer import FiringChecks

    def spec_of_head(self, app, schedule, _gen):
        return self._definitions.generations(app, schedule)[-1].spec

    _replace(FiringChecks, "_spec", spec_of_head)


def raise_the_floor_too_far() -> None:
    """The audit raises the floor over firings that nobody has published yet."""
    from relayctl.core.account import Release
    from relayctl.worker import auditor

    examine = auditor.Auditor._examine

    def examined_anew(self, item, account, now):
        if account is not None:
            self._reload(item, account)
        examine(self, item, account, now)
        # Looked at again soon, as if it fired all the time.
        item.timeline = None

    _replace(auditor, "SETTLE_S", 2.0)
    _replace(auditor, "_SOON_S", 2)
    _replace(auditor, "release", lambda recorded, *, now, **more: Release(floor=now + 2, dropped=()))
    _replace(auditor.Auditor, "_is_in_order", lambda self, *arguments: False)
    _replace(auditor.Auditor, "_examine", examined_anew)


def _replace(owner, name: str, value) -> None:
    """A name that is not there any more would make a break that breaks nothing."""
    assert hasattr(owner, name), f"{owner.__name__} has no {name} any more"
    setattr(owner, name, value)


def _change(script: str, text: str, other: str) -> None:
    from relayctl.store import scripts

    known = scripts.source
    assert text in known(script), f"{script}.lua has no {text!r} any more"

    def changed(name: str) -> str:
        return known(name).replace(text, other) if name == script else known(name)

    scripts.source = changed
    scripts.digest.cache_clear()


BREAKS: dict[str, Callable[[], None]] = {
    "acknowledge-early": acknowledge_early,
    "skip-the-outbox": skip_the_outbox,
    "drop-the-token-check": drop_the_token_check,
    "publish-before-registering": publish_before_registering,
    "close-without-comparing": close_without_comparing,
    "forget-a-lease": forget_a_lease,
    "judge-by-today": judge_by_today,
    "raise-the-floor-too-far": raise_the_floor_too_far,
}
