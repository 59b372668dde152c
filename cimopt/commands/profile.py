"""`cimopt profile`: found in an installed plug-in by the entry-point group `cimopt.commands`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cimopt.errors import CimoptError, InputError

GROUP = "cimopt.commands"


def main(arguments: Sequence[str]) -> int:
    """Hand the arguments to the plug-in that announces `profile`; returns its exit code."""
    from cimopt.plugins import installed, load

    try:
        if not any(p.name == "profile" for p in installed(GROUP)):
            raise InputError("'cimopt profile' comes with the plug-in cimopt-zeroskip, which is not installed")
        command = load(GROUP, "profile")
    except CimoptError as error:
        sys.stderr.write(f"cimopt: {error}\n")
        return error.exit_code
    return command(list(arguments))
