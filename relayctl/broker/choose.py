"""Which broker a command uses: the one named, else the embedded one that runs here, else one it may start.

Reads no settings: the caller passes what was configured. A broker that was named is never replaced by another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relayctl.broker.binary import no_broker_running
from relayctl.broker.supervise import EmbeddedBroker, Endpoint
from relayctl.errors import BrokerUnavailable
from relayctl.store.connect import Kind, Target, ping

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.host.state import StateDir


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The broker to use. `embedded` and `endpoint` are None for one that was named."""

    target: Target
    embedded: EmbeddedBroker | None = None
    endpoint: Endpoint | None = None

    def close(self) -> None:
        """Stop what this choice started; a named or attached broker goes on."""
        if self.embedded is not None:
            self.embedded.stop()


def resolve_broker(*, explicit_url: str | None, state: StateDir, may_start: bool, clock: Clock) -> Choice:
    """Choose by the order above.

    Raises UsageError for an unreadable URL, BrokerUnavailable or BrokerRefused for a named broker that does not
    answer, NoBroker if there is none and none may or can be started.
    """
    if explicit_url is not None:
        target = Target.parse(explicit_url)
        _ping_named(target)
        return Choice(target=target)
    embedded = EmbeddedBroker(state, clock)
    endpoint = embedded.start_or_attach() if may_start else embedded.attach()
    if endpoint is None:
        raise no_broker_running()
    return Choice(target=embedded.target, embedded=embedded, endpoint=endpoint)


def _ping_named(target: Target) -> None:
    try:
        ping(target)
    except BrokerUnavailable as error:
        if target.kind is Kind.SENTINEL:
            # Its own help knows more: whether the name is wrong, or the primary is down.
            raise
        raise BrokerUnavailable(
            error.message,
            help="start it or correct its URL (--redis, RELAYCTL_REDIS_URL); without one, serve brings a broker along",
        ) from None
