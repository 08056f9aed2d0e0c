"""Which engines have a newer release than the one that is measured, by how much they are behind,
and how an engine's pin is moved to it. For versions.yml; by hand:
`python3 .github/versions/versions.py behind`.

What an engine's package is called stands in data/maturity.toml, how it is built in
engines/engines.toml. Registries are asked by their own clients, pip and Cargo. An engine that comes
by git revision and the crates of the tokenizer suite are listed, and moved by hand. Engines without
a package are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON, CARGO = "python", "cargo"
# What the tokenizer suite compares, of the root's lock.
TOKENIZERS = ("tokenizers", "tiktoken-rs", "bpe")
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


class Revision(NamedTuple):
    """An engine's package that comes from a git repository."""

    engine: str
    package: str
    url: str
    commit: str


def toml(path: str) -> dict[str, Any]:
    """A file of the repository."""
    return tomllib.loads((ROOT / path).read_text())


def packaged() -> list[tuple[str, str, dict[str, Any]]]:
    """The id, the package and the build of each engine that has a package."""
    known = toml("data/maturity.toml")["engine"]
    packages = {engine["id"]: engine.get("package") for engine in known}
    engines = toml("engines/engines.toml")["engine"]
    named = [(engine["id"], packages.get(engine["id"]), engine["build"]) for engine in engines]
    return [(engine, package, build) for engine, package, build in named if package]


def pins() -> list[Pin]:
    """All engines whose package a registry has."""
    found = []
    for engine, package, build in packaged():
        if build["kind"] == PYTHON:
            directory = (ROOT / build["requirements"]).parent
            version = locked_by_pip((ROOT / build["requirements"]).read_text(), package)
        elif build["kind"] == CARGO:
            directory = (ROOT / build.get("manifest", "Cargo.toml")).parent
            version = locked_by_cargo((directory / "Cargo.lock").read_text(), package)
        else:
            continue
        if version:
            found.append(Pin(engine, package, build["kind"], directory, version))
    return found


def tokenizers() -> list[Pin]:
    """The crates that the tokenizer suite compares."""
    lock = (ROOT / "Cargo.lock").read_text()
    locked = [(package, locked_by_cargo(lock, package)) for package in TOKENIZERS]
    suite = "tokenizer suite"
    return [Pin(suite, package, CARGO, ROOT, version) for package, version in locked if version]


def revisions() -> list[Revision]:
    """All engines whose package comes from a git repository."""
    found = []
    for engine, package, build in packaged():
        if build["kind"] != CARGO:
            continue
        lock = (ROOT / build.get("manifest", "Cargo.toml")).parent / "Cargo.lock"
        source = locked_by_git(lock.read_text(), package)
        if source:
            found.append(Revision(engine, package, *source))
    return found


def days_known() -> dict[str, dict[str, str]]:
    """The days of releases in data/maturity.toml, by package and version."""
    days: dict[str, dict[str, str]] = {}
    for engine in toml("data/maturity.toml")["engine"]:
        of_package = days.setdefault(engine.get("package", ""), {})
        of_package.update({release["version"]: release["date"] for release in engine["releases"]})
    return days


def locked_by_pip(lock: str, package: str) -> str | None:
    """The version that a lock pins."""
    found = re.search(rf"^{re.escape(package)}==([^ ;\\\n]+)", lock, re.MULTILINE)
    return found[1] if found else None


def locked_by_cargo(lock: str, package: str) -> str | None:
    """The highest version of a package that comes from a registry; stable ones come first."""
    entries = tomllib.loads(lock).get("package", [])
    versions = [
        entry["version"]
        for entry in entries
        if entry["name"] == package and entry.get("source", "").startswith("registry+")
    ]
    return max(versions, key=lambda version: ("-" not in version, order(version)), default=None)


def locked_by_git(lock: str, package: str) -> tuple[str, str] | None:
    """The address and the commit of a package that comes from a git repository."""
    for entry in tomllib.loads(lock).get("package", []):
        source = re.match(r"git\+([^?#]+)[^#]*#([0-9a-f]+)$", entry.get("source", ""))
        if source and entry["name"] == package:
            return source[1], source[2]
    return None


def order(version: str) -> list[int]:
    """A release, in a form that can be compared."""
    return [int(number) for number in re.findall(r"\d+", version.split("-")[0].split("+")[0])]


def releases(pin: Pin) -> dict[str, str]:
    """Releases that the registry has, the newest first, each with its day; empty where the client
    does not say it."""
    if pin.kind == PYTHON:
        said = ask([sys.executable, "-m", "pip", "index", "versions", pin.package])
        return dict.fromkeys(listed_by_pip(said), "")
    # Outside of the workspace: inside, Cargo speaks of the version that is locked.
    with tempfile.TemporaryDirectory() as elsewhere:
        newest = listed_by_cargo(ask(["cargo", "info", pin.package], elsewhere))
    return up_to(newest, listed_in_index(index_entry(pin.package)))


def up_to(newest: list[str], listed: dict[str, str]) -> dict[str, str]:
    """`newest` and the older ones of `listed`, the newest first: a release that asks for a newer
    Rust than ours is not one that we could take."""
    found = dict.fromkeys(newest, "")
    for version, day in listed.items():
        if newest and order(version) <= order(newest[0]):
            found[version] = day
    return dict(sorted(found.items(), key=lambda release: order(release[0]), reverse=True))


def index_entry(package: str) -> bytes:
    """Cargo's copy of what the registry's index says of a crate; empty where there is none."""
    name = package.lower()
    folders = {1: "1", 2: "2", 3: f"3/{name[:1]}"}.get(len(name), f"{name[:2]}/{name[2:4]}")
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    copies = (home / "registry/index").glob(f"*/.cache/{folders}/{name}")
    newest = max(copies, key=lambda copy: copy.stat().st_mtime, default=None)
    return newest.read_bytes() if newest else b""


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


def listed_in_index(entry: bytes) -> dict[str, str]:
    """Out of Cargo's copy of the index: stable releases that were not withdrawn, each with its day;
    empty where the index does not say it. What is not understood is left out."""
    found = {}
    for part in entry.split(b"\0"):
        if part.startswith(b'{"'):
            release = json.loads(part)
            version = release["vers"]
            if not release["yanked"] and "-" not in version.split("+")[0]:
                found[version] = (release.get("pubtime") or "")[:10]
    return found


def amount(version: str, found: dict[str, str], days: dict[str, str]) -> tuple[str, str]:
    """How many of the releases `found` are newer than `version`, and how many days lie between it
    and the newest, in words. `days`: those of releases that `found` gives no day."""
    newer = [other for other in found if order(other) > order(version)]
    if not found:
        return "could not be asked", "—"
    if not newer:
        return "none", "0"
    newest = next(iter(found))
    first = found.get(version) or days.get(version)
    last = found[newest] or days.get(newest)
    apart = "—"
    if first and last:
        apart = str((date.fromisoformat(last) - date.fromisoformat(first)).days)
    # Where the newest alone is known, there may be others between.
    return (f"{len(newer)} newer" if len(found) > 1 else "newer"), apart


def behind(summary: Path | None) -> list[dict[str, str]]:
    """The engines that are behind and can be moved; all that is pinned, as Markdown, into
    `summary`."""
    rows, late = [], []
    movable, days = pins(), days_known()
    for pin in [*movable, *tokenizers()]:
        found = releases(pin)
        to = next(iter(found), "")
        words, apart = amount(pin.version, found, days.get(pin.package, {}))
        if pin in movable and to and order(to) > order(pin.version):
            late.append(
                {"engine": pin.engine, "package": pin.package, "from": pin.version, "to": to}
            )
        row = (pin.engine, pin.package, pin.version, to or "—", words, apart)
        rows.append(f"| {' | '.join(row)} |")
    for at in revisions():
        said = ask(["git", "ls-remote", at.url, "HEAD"]).split()
        words = "could not be asked" if not said else "none"
        if said and said[0] != at.commit:
            words = "other commits"
        row = (at.engine, at.package, at.commit[:7], said[0][:7] if said else "—", words, "—")
        rows.append(f"| {' | '.join(row)} |")
    if summary:
        head = [
            "| Engine | Package | Measured | Newest | Releases | Days between |",
            "|---|---|---|---|---|---|",
        ]
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
