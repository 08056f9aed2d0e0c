"""The file that keeps errors of requests made by hand, where the user wants one.

`BENCH_ERROR_LOG`, or its alias `TEST_BURN_ERROR_LOG`, is a path, or a truthy word that stands for a
file with a default name in the working directory. The Rust engines write the same format
(engines/protocol/src/error_log.rs).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

# The environment variables, in order of precedence, each with the default name of its file.
VARIABLES = {"BENCH_ERROR_LOG": "bench-errors.log", "TEST_BURN_ERROR_LOG": "test-burn-error.log"}


def path(variables: Mapping[str, str]) -> Path | None:
    """Return the path of the log, or `None` if the user wants none."""
    for name, default in VARIABLES.items():
        if name not in variables:
            continue
        value = variables[name]
        if value.lower() in ("", "0", "false", "no", "off"):
            return None
        return Path(default if value.lower() in ("1", "true", "yes", "on") else value)
    return None


def append(message: str) -> None:
    """Append an entry, if the user wants a log. If that fails, say so on stderr and go on."""
    if (log := path(os.environ)) is None:
        return
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    program = Path(sys.argv[0]).name
    text = message.rstrip().replace("\n", "\n    ")
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{now} error [{program}] {text}\n")
    except OSError as error:
        print(f"{log} can't be appended to: {error}", file=sys.stderr)
