"""What every record needs: content hashes and the values a choice may have."""

from __future__ import annotations

import hashlib
import json

Value = float | int | str


def fingerprint(content: object) -> str:
    """A short, stable content hash (sha256 of canonical JSON, 16 hex digits)."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
