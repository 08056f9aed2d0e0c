"""Which engines have a newer release than the one that is measured, and how an engine's pin is
moved to it. For versions.yml; by hand: `python3 .github/versions/versions.py behind`.

What an engine's package is called stands in data/maturity.toml, how it is built in
engines/engines.toml. Registries are asked by their own clients, pip and Cargo. Engines that come by
git revision, and those without a package, are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON, CARGO = "python", "cargo"
# The words above a lock: what it is, and the command that made it.
HEADER_LINES = 4


class Pin(NamedTuple):
    """An engine's package, as it is measured."""

    engine: str
    package: str
    kind: str
    # The folder of requirements.lock or of Cargo.lock.
    directory: Path
    version: str


def toml(path: str) -> dict[str, Any]:
    """A file of the repository."""
    return tomllib.loads((ROOT / path).read_text())


def pins() -> list[Pin]:
    """All engines whose package a registry has."""
    known = toml("data/maturity.toml")["engine"]
    packages = {engine["id"]: engine.get("package") for engine in known}
    found = []
    for engine in toml("engines/engines.toml")["engine"]:
        package, build = packages.get(engine["id"]), engine["build"]
        if not package:
            continue
        if build["kind"] == PYTHON:
            directory = (ROOT / build["requirements"]).parent
            version = locked_by_pip((ROOT / build["requirements"]).read_text(), package)
        elif build["kind"] == CARGO:
            directory = (ROOT / build.get("manifest", "Cargo.toml")).parent
            version = locked_by_cargo((directory / "Cargo.lock").read_text(), package)
        else:
            continue
        if version:
            found.append(Pin(engine["id"], package, build["kind"], directory, version))
    return found


def locked_by_pip(lock: str, package: str) -> str | None:
    """The version that a lock pins."""
    found = re.search(rf"^{re.escape(package)}==([^ ;\\\n]+)", lock, re.MULTILINE)
    return found[1] if found else None


def locked_by_cargo(lock: str, package: str) -> str | None:
    """The highest version of a package that comes from a registry."""
    entries = tomllib.loads(lock).get("package", [])
    versions = [
        entry["version"]
        for entry in entries
        if entry["name"] == package and entry.get("source", "").startswith("registry+")
    ]
    return max(versions, key=order, default=None)


def order(version: str) -> list[int]:
    """A release, in a form that can be compared."""
    return [int(number) for number in re.findall(r"\d+", version.split("-")[0].split("+")[0])]


def newest(pin: Pin) -> list[str]:
    """Releases that the registry has, the newest first; of a crate the newest alone."""
    if pin.kind == PYTHON:
        said = ask([sys.executable, "-m", "pip", "index", "versions", pin.package])
        return listed_by_pip(said)
    # Outside of the workspace: inside, Cargo speaks of the version that is locked.
    with tempfile.TemporaryDirectory() as elsewhere:
        return listed_by_cargo(ask(["cargo", "info", pin.package], elsewhere))


def ask(command: list[str], directory: str | Path = ROOT) -> str:
    """What a client says; nothing where it fails."""
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, timeout=120
    )
    return done.stdout if done.returncode == 0 else ""


def listed_by_pip(said: str) -> list[str]:
    """Out of `pip index versions`."""
    found = re.search(r"^Available versions: (.+)$", said, re.MULTILINE)
    return [version.strip() for version in found[1].split(",")] if found else []


def listed_by_cargo(said: str) -> list[str]:
    """Out of `cargo info`; a release that asks for a newer Rust stands in brackets."""
    found = re.search(r"^version: (\S+)", said, re.MULTILINE)
    return [found[1]] if found else []


def behind(summary: Path | None) -> list[dict[str, str]]:
    """The engines that are behind; all of them, as Markdown, into `summary`."""
    rows, late = [], []
    for pin in pins():
        releases = newest(pin)
        to = releases[0] if releases else ""
        newer = [version for version in releases if order(version) > order(pin.version)]
        words = "could not be asked" if not to else "none"
        if newer:
            words = f"{len(newer)} newer" if pin.kind == PYTHON else "newer"
            late.append(
                {"engine": pin.engine, "package": pin.package, "from": pin.version, "to": to}
            )
        rows.append(f"| {pin.engine} | {pin.package} | {pin.version} | {to or '—'} | {words} |")
    if summary:
        head = ["| Engine | Package | Measured | Newest | Releases |", "|---|---|---|---|---|"]
        with summary.open("a") as file:
            file.write("\n".join([*head, *rows]) + "\n")
    return late


def update(engine: str, to: str) -> None:
    """Move an engine's pins and its lock to a release."""
    pin = next((pin for pin in pins() if pin.engine == engine), None)
    if pin is None:
        sys.exit(f"{engine} has no package that a registry has")
    if pin.kind == PYTHON:
        update_python(pin, to)
    else:
        update_cargo(pin, to)


def update_python(pin: Pin, to: str) -> None:
    """Its requirements, and the lock under the header that it has."""
    wanted = pin.directory / "requirements.in"
    wanted.write_text(moved_requirements(wanted.read_text(), pin.package, pin.version, to))
    lock = pin.directory / "requirements.lock"
    header = "".join(lock.read_text().splitlines(keepends=True)[:HEADER_LINES])
    oldest = re.search(r"--python-version (\S+)", header)
    if not oldest:
        sys.exit(f"{lock}: its header does not say how it is made")
    options = ["--generate-hashes", "--universal", "--no-header", "--quiet"]
    with tempfile.TemporaryDirectory() as made:
        # Beside the old pins, so that nothing else moves.
        new = Path(made) / lock.name
        new.write_text(lock.read_text())
        command = ["uv", "pip", "compile", *options, "--python-version", oldest[1]]
        command += [wanted.name, "--output-file", str(new)]
        subprocess.run(command, cwd=pin.directory, check=True)
        lock.write_text(header + new.read_text())


def moved_requirements(text: str, package: str, old: str, to: str) -> str:
    """requirements.in with other pins of the packages that are released together, of which one may
    have a longer version than another."""
    family = package.split("-")[0]

    def moved(pin: re.Match[str]) -> str:
        name, version = pin[1], pin[2]
        if not f"{old}.".startswith(f"{version}."):
            return pin[0]
        return f"{name}=={'.'.join(to.split('.')[: len(version.split('.'))])}"

    pattern = rf"^({re.escape(family)}(?:-[\w-]+)?)==([\d.]+)$"
    return re.sub(pattern, moved, text, flags=re.MULTILINE)


def update_cargo(pin: Pin, to: str) -> None:
    """The manifest's pins of the crates that are released together, what the adapter says of them,
    and the lock."""
    family = pin.package.split("-")[0]
    manifest = pin.directory / "Cargo.toml"
    manifest.write_text(moved_crates(manifest.read_text(), family, pin.version, to))
    for source in (ROOT / "engines" / pin.engine).rglob("*.rs"):
        text = source.read_text()
        said = text.replace(f'"{pin.package} {pin.version}"', f'"{pin.package} {to}"')
        said = said.replace(f'VERSION: &str = "{pin.version}"', f'VERSION: &str = "{to}"')
        if said != text:
            source.write_text(said)
    # Whatever else could move stays.
    subprocess.run(["cargo", "update", "--workspace"], cwd=pin.directory, check=True)


def moved_crates(text: str, family: str, old: str, to: str) -> str:
    """A manifest with another pin of `family` and `family-…`, where they have the version `old`."""
    pattern = rf'^({re.escape(family)}(?:-[\w-]+)? = .*?"=?){re.escape(old)}"'
    return re.sub(pattern, rf'\g<1>{to}"', text, flags=re.MULTILINE)


def main() -> None:
    """The verbs."""
    parser = argparse.ArgumentParser(description="Engines and their newest releases.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    lists = verbs.add_parser("behind", help="print those that are behind, as JSON")
    lists.add_argument("--summary", type=Path, help="a file to append a Markdown table to")
    moves = verbs.add_parser("update", help="move an engine's pin")
    moves.add_argument("engine")
    moves.add_argument("to")
    options = parser.parse_args()
    if options.verb == "behind":
        print(json.dumps(behind(options.summary)))
    else:
        update(options.engine, options.to)


if __name__ == "__main__":
    main()
