"""Finds out for `hello` what is installed: Python, an environment's packages, and torch. It reads
files, because importing torch takes seconds and hello must not wait for that.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path


def environment(lock: Path) -> dict[str, str]:
    """Return the running Python, and what its environment was made from: the lock, unless
    `BENCH_VENV` names an environment to use as it is."""
    python = {"python": f"{platform.python_implementation()} {platform.python_version()}"}
    named = os.environ.get("BENCH_VENV")
    is_it = named and Path(named).resolve() == Path(sys.prefix).resolve()
    if is_it and not os.environ.get("BENCH_NIX_SHELL"):
        return {**python, "environment": f"named by BENCH_VENV, not made from {lock.name}"}
    return {**python, "lock_sha256": hashlib.sha256(lock.read_bytes()).hexdigest()}


def version_of(package: str) -> str:
    """Return a package's installed version, from its metadata; `absent` if it isn't installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def package_dir(name: str) -> Path | None:
    """Where a package is installed, without importing it."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def version_in(package: Path | None, file: str) -> str | None:
    """`__version__` as written in one of a package's files."""
    if package is None:
        return None
    found = re.search(r"^__version__ = ['\"](.+)['\"]", (package / file).read_text(), re.MULTILINE)
    return found[1] if found else None


def torch_build(torch_dir: Path | None) -> dict[str, str]:
    """Return what `torch.__config__` would report about torch's libraries, from torch's headers."""
    if torch_dir is None:
        return {}
    facts = {}
    version = (torch_dir / "version.py").read_text()
    for name in ("cuda", "git_version"):
        if found := re.search(rf"^{name}(?:: .+?)? = (.+)$", version, re.MULTILINE):
            facts[f"torch_{name}"] = found[1].strip("'\"")
    header = torch_dir / "include" / "ATen" / "Config.h"
    enabled = dict(re.findall(r"#define (AT_\w+)(?:\(\))? ([01])", read_or_empty(header)))
    libraries = {
        "AT_MKL_ENABLED": "mkl",
        "AT_MKLDNN_ENABLED": "onednn",
        "AT_MKLDNN_ACL_ENABLED": "acl",
        "AT_PARALLEL_OPENMP": "openmp",
    }
    facts["torch_libraries"] = " ".join(
        name for define, name in libraries.items() if enabled.get(define) == "1"
    )
    return facts


def read_or_empty(path: Path) -> str:
    """Return a file's text; empty if there is no file."""
    return path.read_text() if path.is_file() else ""
