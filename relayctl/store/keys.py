"""Every key in the broker, spelled once. All carry one hash tag, so that a Cluster keeps a script's keys together."""

from __future__ import annotations

import re

from relayctl.errors import UsageError

_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)

GROUP = "relay"
"""The one consumer group on the stream; a second group is unsupported, since finished entries are deleted."""
ROUTED = "routed"
"""The consumer that routed entries belong to: what any other consumer still holds was read but not routed."""

PARKED = "newer:"
"""The consumer `newer:<version>` holds entries of that version, read by a worker that does not know it. Whoever does
takes them over at once; nobody else looks at them again."""

HANDED_OVER = "handed-over"
"""The consumer of entries whose reader could not see all the rules that may want them. Whoever can takes them over."""


class Keys:
    """Key names of one namespace. Names that reach it have passed the name rule, so no part can hold a colon."""

    __slots__ = ("_prefix", "namespace")

    def __init__(self, namespace: str = "relay") -> None:
        """`namespace` becomes the hash tag; braces would break it and are refused."""
        if _NAMESPACE.fullmatch(namespace) is None:
            raise UsageError(
                f"namespace {namespace!r} cannot be used",
                help="letters, digits, '.', '_' and '-', at most 63 characters, such as relay or team-a",
            )
        self.namespace = namespace
        self._prefix = f"{{{namespace}}}"

    @property
    def events(self) -> str:
        """Stream: intake and unfinished work."""
        return f"{self._prefix}:events"

    def invocations(self, message: str) -> str:
        """Hash: the invocations of one message, their pinned descriptors and the envelope."""
        return f"{self._prefix}:inv:{message}"

    def manual(self, app: str, schedule: str, key: str) -> str:
        """String: dedup of one manual run."""
        return f"{self._prefix}:manual:{app}:{schedule}:{key}"

    @property
    def ready(self) -> str:
        """Sorted set: apps by their earliest due work."""
        return f"{self._prefix}:ready"

    def ready_of(self, app: str) -> str:
        """Sorted set: due work of one app, by due time in milliseconds."""
        return f"{self._prefix}:ready:{app}"

    @property
    def stranded(self) -> str:
        """Hash: an app, or app|slot, to the time in milliseconds since when no live worker can run it."""
        return f"{self._prefix}:stranded"

    @property
    def leases(self) -> str:
        """Sorted set: claims, by the end of their lease in milliseconds."""
        return f"{self._prefix}:leases"

    def schedule(self, app: str, schedule: str) -> str:
        """Hash: the registry of one schedule: head, floor, highest published, pause, generations."""
        return f"{self._prefix}:sch:{app}:{schedule}"

    def published(self, app: str, schedule: str) -> str:
        """Hash: epoch second to state, token and entry id, for the instants above the floor."""
        return f"{self._prefix}:pub:{app}:{schedule}"

    def history_of_schedule(self, app: str, schedule: str) -> str:
        """Stream: ended firings of one schedule."""
        return f"{self._prefix}:hist:s:{app}:{schedule}"

    def history_of_handler(self, app: str, handler: str) -> str:
        """Stream: ended event invocations of one handler."""
        return f"{self._prefix}:hist:h:{app}:{handler}"

    @property
    def output_texts(self) -> str:
        """Hash: claim to the document of its kept output, and what all of them weigh."""
        return f"{self._prefix}:out:texts"

    @property
    def output_times(self) -> str:
        """Sorted set: claims with kept output, by when it was last written."""
        return f"{self._prefix}:out:times"

    def output_of_schedule(self, app: str, schedule: str) -> str:
        """Sorted set: the same claims of one schedule, its manual runs included."""
        return f"{self._prefix}:out:s:{app}:{schedule}"

    def output_of_handler(self, app: str, handler: str) -> str:
        """Sorted set: the same claims of one event handler."""
        return f"{self._prefix}:out:h:{app}:{handler}"

    @property
    def dead_letters(self) -> str:
        """Stream: the dead-letter queue."""
        return f"{self._prefix}:dlq"

    @property
    def dead_letter_marks(self) -> str:
        """Hash: a dead letter to the message that replays it, and how many letters were taken out on purpose."""
        return f"{self._prefix}:dlq:marks"

    @property
    def workers(self) -> str:
        """Sorted set: worker ids by their last heartbeat in milliseconds."""
        return f"{self._prefix}:workers"

    def worker(self, worker: str) -> str:
        """String: the record of one worker, rewritten with each heartbeat."""
        return f"{self._prefix}:worker:{worker}"

    def holdings(self, worker: str) -> str:
        """String: the apps and definitions that one worker holds, rewritten only on change."""
        return f"{self._prefix}:worker:{worker}:holds"

    def running(self, worker: str) -> str:
        """Hash: app to the description of what one worker runs of it, each rewritten only on change."""
        return f"{self._prefix}:worker:{worker}:runs"

    @property
    def definitions_seq(self) -> str:
        """Counter: increased by every change of the registry."""
        return f"{self._prefix}:defs:seq"

    @property
    def definitions_log(self) -> str:
        """Stream: the name of each changed schedule, its id made from the counter."""
        return f"{self._prefix}:defs:log"

    @property
    def definitions(self) -> str:
        """Set: the names of all schedules in the registry, as app/schedule."""
        return f"{self._prefix}:defs:all"

    @property
    def definitions_gone(self) -> str:
        """Sorted set: removed schedules (app/schedule) whose account is open, by their removal in milliseconds."""
        return f"{self._prefix}:defs:gone"

    @property
    def barrier(self) -> str:
        """String: rewritten behind publications whose replicas are waited for, since only a write can be waited for."""
        return f"{self._prefix}:barrier"

    @property
    def epoch(self) -> str:
        """String: a random id that a flushed or replaced server does not have."""
        return f"{self._prefix}:epoch"

    @property
    def mode(self) -> str:
        """String: push or pull."""
        return f"{self._prefix}:mode"

    @property
    def pins(self) -> str:
        """Hash: app to the revision that a release binds the fleet to."""
        return f"{self._prefix}:pin"

    @property
    def release(self) -> str:
        """String: the serial of the release in force."""
        return f"{self._prefix}:release"

    @property
    def releases(self) -> str:
        """Hash: serial to the record of a release, for the last hundred."""
        return f"{self._prefix}:releases"

    @property
    def release_lease(self) -> str:
        """String: who is publishing a release now; it expires by itself."""
        return f"{self._prefix}:release:lease"

    @property
    def bundles(self) -> str:
        """Hash: digest to the bundle of an apps tree, for the last twenty releases and what is on its way."""
        return f"{self._prefix}:bundles"

    @property
    def bundles_staged(self) -> str:
        """Sorted set: bundles that no release refers to yet, by when they came in milliseconds."""
        return f"{self._prefix}:bundles:staged"

    @property
    def consents(self) -> str:
        """Set: the removals that an operator has agreed to."""
        return f"{self._prefix}:consents"
