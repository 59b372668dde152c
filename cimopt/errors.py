"""The errors a person can meet, and the sentence each one prints.

Failure of a *design* is not an error here: it is an `Outcome` with a reason
(see `cimopt.types`). These exceptions are for input and set-up that cannot be
used at all; the command line prints their text and exits with `exit_code`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class CimoptError(Exception):
    """Base of every error cimopt raises on purpose."""

    exit_code = 2


class InputError(CimoptError):
    """A person's input cannot be used; the text names the key, the value and what is allowed."""


class ContractError(CimoptError):
    """A plug-in broke its contract (wrong shape, NaN without a reason, ...); a fault in the plug-in."""


class MissingExtraError(CimoptError):
    """An optional library is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the optional part '{extra}': pip install 'cimopt[{extra}]'")


class StudyConflictError(CimoptError):
    """A run folder or store already holds a study that differs from what is asked."""


def unknown_name(kind: str, given: object, allowed: Iterable[str]) -> InputError:
    """The one sentence for a misspelt name: what was given, the nearest right one, all that exist."""
    names = sorted(str(name) for name in allowed)
    near = difflib.get_close_matches(str(given), names, n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    known = ", ".join(names) if names else "none"
    return InputError(f"unknown {kind} '{given}'{hint} (known: {known})")


def masked(text: str) -> str:
    """The text without passwords of URLs, which never reach a log, a file or a screen.

    Also as Hydra writes them in a sweep's overrides, with backslashes before the colons, and as a
    `password=` of the query.
    """
    text = re.sub(r"(://[^:/@\s\\]*)(\\?:)[^@\s]+@", r"\1\2***@", text)
    return re.sub(r"(://\S*[?&]password\\?=)[^&\s'\"]+", r"\1***", text)
