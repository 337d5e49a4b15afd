"""The versions of the program, of what its answers rest on, and of the formats it reads and writes."""

from __future__ import annotations

import platform
import re
from typing import Any

from relayctl import __version__


def versions() -> dict[str, Any]:
    """By name; `formats` are numbered one by one and change only when a reader could misread them."""
    from relayctl.core.cron import EVALUATOR_VERSION
    from relayctl.core.definition import SPEC_VERSION
    from relayctl.core.occurrence import ENVELOPE_VERSION
    from relayctl.core.zones import tzdata_version

    return {
        "relayctl": __version__,
        "evaluator": EVALUATOR_VERSION,
        "tzdata": tzdata_version(),
        "python": platform.python_version(),
        "formats": {
            "template": _template_version(),
            "envelope": ENVELOPE_VERSION,
            "definition": SPEC_VERSION,
            "output": 1,
        },
    }


def _template_version() -> str:
    from relayctl.templates.schema import template_schema

    # The id of the schema holds its version.
    found = re.search(r"[0-9]+\.[0-9]+", str(template_schema()["$id"]))
    return found.group() if found else "unknown"
