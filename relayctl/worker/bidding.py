"""What to claim: which of the due work there is a place or room in hand for, apps in turn. It claims nothing itself.

The claimer's thread asks; reserved places go back to the executor where nothing is due for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from relayctl.store.invocations import Bid, ClaimRefusal, Wanted

if TYPE_CHECKING:
    from relayctl.store.invocations import Answer, Invocations, Look
    from relayctl.worker.contracts import Contracts
    from relayctl.worker.executor import Executor
    from relayctl.worker.passedby import Member, PassedBy
    from relayctl.worker.snapshot import Snapshot
    from relayctl.worker.tokens import Tokens

_SPARE = 2
"""So many more are asked for than there are places: peers claim too, and whoever comes late takes the next."""
_MOST_SPARE = 16
"""Where peers took more than that of what was asked for last, as much more as they took, up to this."""
_LOOK_AHEAD = 8
"""So much due work of an app is asked for along with other questions; where more can run it is asked again."""


class Bidding:
    """Makes bids from looks at what is due."""

    def __init__(
        self,
        *,
        invocations: Invocations,
        executor: Executor,
        snapshot: Callable[[], Snapshot],
        contracts: Contracts,
        tokens: Tokens,
        passed: PassedBy,
    ) -> None:
        self._invocations = invocations
        self._executor = executor
        self._snapshot = snapshot
        self._contracts = contracts
        self._tokens = tokens
        self._passed = passed
        self._first = 0
        self._asked: dict[str, int] = {}
        self._spare: dict[str, int] = {}

    def ahead(self) -> dict[str, int]:
        """What to ask for before it is known which apps have due work, and places for it."""
        return self._asked

    def bids(self, look: Look, now_ms: int) -> list[Bid]:
        """What to claim of that which was found due, places for it being reserved."""
        snapshot = self._snapshot()
        due_apps = [app for app in look.apps if app in snapshot.live and not self._passed.rests(app)]
        places, in_hand = self._capacity(due_apps, snapshot)
        room = {app: places.get(app, 0) + in_hand.get(app, 0) for app in due_apps}
        self._asked = {app: max(_LOOK_AHEAD, count + self._spare_of(app) + 1) for app, count in room.items()}
        room = {app: count for app, count in room.items() if count}
        if not room:
            self._executor.starve(due_apps)
            return []
        due: dict[str, list[Member]] = {app: [] for app in room}
        left = dict(places)
        try:
            for item in self._due(room, look, now_ms):
                due[item[0]].append(item)
            chosen = {app: items[: room[app] + self._spare_of(app)] for app, items in due.items() if items}
            wanted = {app: self._wanted(items, snapshot) for app, items in chosen.items()}
            left |= dict.fromkeys(wanted, 0)
        finally:
            for app, count in left.items():
                self._executor.give_back(app, count)
        more = [app for app, items in due.items() if len(items) > room[app]]
        self._executor.starve([app for app in due_apps if app in more or app not in places])
        for app in more:
            # Where every place was free nobody has asked yet for the children that come next.
            self._executor.demand(app, snapshot.live[app].app.concurrency)
        return [Bid(items, places.get(app, 0), in_hand.get(app, 0)) for app, items in wanted.items()]

    def answered(self, bids: Sequence[Bid], answers: Sequence[Sequence[Answer]]) -> None:
        """What became of the last bids: where peers are faster, the next ones name more."""
        for bid, answered in zip(bids, answers, strict=True):
            self._spare[bid.app] = sum(answer is ClaimRefusal.TAKEN for answer in answered)

    def _spare_of(self, app: str) -> int:
        return max(_SPARE, min(_MOST_SPARE, self._spare.get(app, 0)))

    def _capacity(self, due_apps: list[str], snapshot: Snapshot) -> tuple[dict[str, int], dict[str, int]]:
        """By app, the places that were reserved for its due work, and how much more of it to have in hand."""
        places = self._reserve(self._in_turn(due_apps), snapshot) if due_apps else {}
        if any(app not in places and not self._executor.is_grown(app) for app in due_apps):
            # It needs a child for which another one has to go, and of what is in hand none would ever rest.
            return places, {}
        rooms = ((app, self._executor.room_in_hand(app)) for app in due_apps)
        return places, {app: room for app, room in rooms if room}

    def _in_turn(self, apps: list[str]) -> list[str]:
        """Another app goes first each time, so that no app waits for a busier one."""
        self._first += 1
        start = self._first % len(apps)
        return apps[start:] + apps[:start]

    def _reserve(self, apps: Sequence[str], snapshot: Snapshot) -> dict[str, int]:
        found: dict[str, int] = {}
        for app in apps:
            concurrency = snapshot.live[app].app.concurrency
            places = self._executor.reserve(app, concurrency)
            if places < concurrency:
                self._executor.demand(app, concurrency)
            if places:
                found[app] = places
        return found

    def _due(self, room: Mapping[str, int], look: Look, now_ms: int) -> list[Member]:
        """Due work of these apps without what is left to peers; of each one more than there is room for."""
        skipped = self._passed.left()
        of_app = Counter(name[0] for name in skipped) if skipped else {}
        asked = {app: count + of_app.get(app, 0) + 1 for app, count in room.items()}
        seen = Counter([item[0] for item in look.due])
        known = {app for app, count in asked.items() if look.asked.get(app, 0) >= min(count, seen[app] + 1)}
        rest = [(app, count) for app, count in asked.items() if app not in known]
        found = [item for item in look.due if item[0] in known]
        found += self._invocations.due(rest, now_ms) if rest else []
        if not skipped:
            return found
        fresh = [item for item in found if (item[0], item[1], item[2].text) not in skipped]
        self._passed.found(room.keys(), Counter(item[0] for item in fresh))
        return fresh

    def _wanted(self, items: Sequence[Member], snapshot: Snapshot) -> list[Wanted]:
        live = snapshot.live[items[0][0]]
        revision = self._executor.revision_of(live)
        return [
            Wanted(
                message=message,
                app=app,
                slot=slot,
                token=self._tokens.next(),
                # Without it only a claim whose descriptor is pinned already can succeed.
                descriptor=self._contracts.text(live, slot) or "",
                revision=revision,
            )
            for app, message, slot in items
        ]
