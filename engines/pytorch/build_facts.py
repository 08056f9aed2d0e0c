"""What `hello` says of the torch that is installed. Read from its files: importing it takes
seconds, and hello must not wait for them.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path


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
    """What `torch.__config__` would say of the libraries under it, from the headers it ships."""
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
    """A file's text, or none where there is no file."""
    return path.read_text() if path.is_file() else ""
