"""Writes wheels.toml: which wheel of each package in engines/pytorch/requirements.lock the flake
installs. It asks pip for the names and compares every hash with the lock's; it installs nothing.

    python3 nix/wheels.py > nix/wheels.toml

pip downloads some GB on the way. Run it whenever requirements.lock or the Python in versions.toml
has changed; `cargo xtask tidy` says if that was forgotten."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

from pip._vendor.packaging.requirements import Requirement

NIX = pathlib.Path(__file__).parent
LOCK = NIX.parent / "engines/pytorch/requirements.lock"
# Newest first, as pip prefers them; glibc's of the pinned nixpkgs is newer than all of them.
PLATFORMS = [f"manylinux{release}" for release in ("_2_28", "_2_27", "_2_24", "_2_17", "2014")]


def python_version() -> str:
    """`3.13`, of versions.toml."""
    text = (NIX / "versions.toml").read_text()
    return re.search(r'^python = "(.+)"$', text, re.MULTILINE)[1]


def locked(python: str) -> dict[str, list[str]]:
    """Requirement → hashes it may have, of those that Linux on x86-64 needs."""
    environment = {
        "extra": "",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_system": "Linux",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
    found = {}
    for line in LOCK.read_text().replace("\\\n", " ").splitlines():
        if line.startswith(("#", " ")) or "==" not in line:
            continue
        words, *hashes = line.split("--hash=sha256:")
        requirement = Requirement(words.strip())
        if requirement.marker is None or requirement.marker.evaluate(environment):
            found[f"{requirement.name}{requirement.specifier}"] = [h.strip() for h in hashes]
    return found


def chosen(python: str, requirements: list[str]) -> list[tuple[str, str]]:
    """File name and hash of the wheels that pip would install."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
        command += ["--ignore-installed", "--no-cache-dir", "--only-binary=:all:"]
        command += ["--python-version", python, "--target", scratch, "--report", str(report)]
        command += [f"--platform={name}_x86_64" for name in PLATFORMS]
        subprocess.run(command + requirements, check=True, stdout=sys.stderr)
        items = json.loads(report.read_text())["install"]
    archives = [item["download_info"] for item in items]
    return sorted(
        (file_name(archive["url"]), archive["archive_info"]["hashes"]["sha256"])
        for archive in archives
    )


def file_name(url: str) -> str:
    """The last part of an address."""
    return urllib.parse.unquote(url.split("#")[0].rsplit("/", 1)[1])


def main() -> None:
    python = python_version()
    requirements = locked(python)
    allowed = {digest for hashes in requirements.values() for digest in hashes}
    wheels = chosen(python, list(requirements))
    for file, digest in wheels:
        if digest not in allowed:
            sys.exit(f"{file}: the lock has no hash {digest}")
    print("# The wheels of engines/pytorch/requirements.lock that the flake's Python is made of.")
    print("# Made by wheels.py, which says how; `cargo xtask tidy` holds it against the lock.")
    for file, digest in wheels:
        print(f'\n[[wheel]]\nfile = "{file}"\nsha256 = "{digest}"')


if __name__ == "__main__":
    main()
