"""Removes drafts that were left for a week. Running it twice removes nothing twice."""

import json
import os
import time
from pathlib import Path

MAX_AGE_S = 7 * 24 * 3600


def handler(event):
    drafts = Path(os.environ.get("DRAFTS_DIR", "drafts"))
    old = [path for path in drafts.glob("*.json") if time.time() - path.stat().st_mtime > MAX_AGE_S]
    for path in old:
        path.unlink(missing_ok=True)
    print(json.dumps({"removed": len(old), "due": event.get("scheduled_at")}))
