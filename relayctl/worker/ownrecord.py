"""What a worker says of itself with each heartbeat, put together from its parts."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from relayctl import __version__
from relayctl.core.cron import EVALUATOR_VERSION
from relayctl.core.occurrence import second_text
from relayctl.core.routing import wants_verdicts
from relayctl.core.zones import tzdata_version
from relayctl.store.fleet import WorkerRecord

if TYPE_CHECKING:
    from relayctl.sources.source import Source
    from relayctl.worker.parts import Parts


def own_record(parts: Parts, source: Source, is_publishing: bool) -> WorkerRecord:
    """How these parts stand. `is_publishing` says whether the scheduler fires what is due."""
    parts.builds.look()
    snapshot, standing = parts.reconciler.snapshot, source.standing
    refused = parts.builds.refused(snapshot)
    return WorkerRecord(
        id=parts.id,
        host=platform.node(),
        pid=os.getpid(),
        version=__version__,
        started_at=second_text(parts.started_at),
        is_publishing=is_publishing,
        holdings_seq=parts.reconciler.holdings_seq,
        evaluator=EVALUATOR_VERSION,
        tzdata=tzdata_version(),
        drift=parts.reconciler.drift,
        source=standing.label,
        revision=standing.revision,
        revision_since=standing.since_text,
        broken=parts.reconciler.broken_apps,
        notes=tuple(f"its source: {note}" for note in standing.notes)
        + parts.reconciler.notes
        + parts.limits.notes
        + (() if parts.binding is None else parts.binding.notes)
        + tuple(f"{app}: its new code does not load: {reason}" for app, reason in refused.items()),
        is_partial=source.is_partial,
        wants_verdicts=wants_verdicts(snapshot.apps.values()),
        max_timeout_s=parts.options.cap.total_seconds(),
        services=parts.services.standings,
        unable=parts.executor.unable,
        unenforced=parts.limits.unenforceable,
        running=parts.builds.digest(snapshot),
        pending=parts.builds.pending(snapshot),
        refused=refused,
        unbuilt=parts.environments.unbuilt,
        unresolved=parts.executor.secrets.unresolved,
    )
