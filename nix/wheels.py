"""Writes wheels/*.toml: which wheel of each package the flake installs, for each requirements.lock
that a registry names. It asks uv, with which the locks are made, for the names, and compares every
hash with the lock's; it downloads no wheel and installs nothing.

    python3 nix/wheels.py

It needs Python 3.11 and uv. Run it whenever a lock or its requirements.in, a registry or the Python
in versions.toml has changed; `cargo xtask tidy` says if that was forgotten."""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse

from pip._vendor.packaging import tags
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import parse_wheel_filename

NIX = pathlib.Path(__file__).resolve().parent
ROOT = NIX.parent
OUT = NIX / "wheels"
REGISTRIES = ("engines/engines.toml", "engines/micro.toml", "engines/train.toml")
# The newest interface of glibc that a wheel may ask for, and the older names of some; that of the
# pinned nixpkgs is newer than all of them.
GLIBC_MINOR = 28
LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


def locks(value: object) -> set[str]:
    """The requirements that a registry names, wherever they stand in it."""
    if isinstance(value, list):
        return set().union(*map(locks, value))
    if not isinstance(value, dict):
        return set()
    named = value.get("requirements")
    own = {named} if isinstance(named, str) else set()
    return own.union(*map(locks, value.values()))


def ranks(python: str) -> dict[tags.Tag, int]:
    """The tags that a wheel may have, the best first as pip prefers them."""
    platforms = []
    for minor in range(GLIBC_MINOR, 4, -1):
        names = [f"manylinux_2_{minor}", *([LEGACY[minor]] if minor in LEGACY else [])]
        platforms += [f"{name}_x86_64" for name in names]
    version = tuple(map(int, python.split(".")))
    interpreter = f"cp{python.replace('.', '')}"
    cpython = tags.cpython_tags(version, [interpreter], platforms)
    others = tags.compatible_tags(version, interpreter, platforms)
    return {tag: rank for rank, tag in reversed(list(enumerate([*cpython, *others])))}


def packages(lock: pathlib.Path, python: str) -> list[dict]:
    """What Linux on x86-64 installs of a lock, each with its wheels."""
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "pylock.toml"
        command = ["uv", "pip", "compile", str(lock), "--quiet", "--no-deps", "--no-header"]
        command += ["--python-version", python, "--only-binary", ":all:", "--format", "pylock.toml"]
        command += ["--python-platform", f"x86_64-manylinux_2_{GLIBC_MINOR}"]
        command += ["--no-python-downloads", "--output-file", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return tomllib.loads(out.read_text())["packages"]


def chosen(package: dict, ranks: dict[tags.Tag, int]) -> tuple[str, str]:
    """File name and hash of the wheel that pip would install."""
    found = []
    for wheel in package.get("wheels", []):
        file = urllib.parse.unquote(wheel["url"].split("#")[0].rsplit("/", 1)[1])
        _, _, build, wanted = parse_wheel_filename(file)
        fitting = [ranks[tag] for tag in wanted if tag in ranks]
        if fitting:
            # The best tag, and of equals the newest build.
            newest = tuple(-part if isinstance(part, int) else part for part in build)
            found.append((min(fitting), newest, file, wheel["hashes"]["sha256"]))
    if not found:
        sys.exit(f"{package['name']} {package['version']} has no wheel that fits")
    return min(found)[2:]


def imports(lock: pathlib.Path) -> list[str]:
    """The modules of the packages that the environment is made for."""
    lines = lock.with_suffix(".in").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return sorted(requirement.name.replace("-", "_") for requirement in wanted)


def environment(name: str, python: str) -> str:
    """The file of the environment that is made from this lock."""
    lock = ROOT / name
    text = lock.read_bytes()
    ranked = ranks(python)
    wheels = sorted(chosen(package, ranked) for package in packages(lock, python))
    for file, digest in wheels:
        if f"--hash=sha256:{digest}" not in text.decode():
            sys.exit(f"{file}: {name} has no hash {digest}")
    modules = ", ".join(f'"{module}"' for module in imports(lock))
    head = f"""\
# The wheels of {name} that the flake makes an environment of.
# Made by ../wheels.py, which says how; `cargo xtask tidy` holds it against the lock.
requirements = "{name}"
requirements_sha256 = "{hashlib.sha256(text).hexdigest()}"
# Modules of the packages in requirements.in: the environment is good if they can be imported.
imports = [{modules}]
"""
    entries = (f'\n[[wheel]]\nfile = "{file}"\nsha256 = "{digest}"\n' for file, digest in wheels)
    return head + "".join(entries)


def main() -> None:
    python = tomllib.loads((NIX / "versions.toml").read_text())["python"]
    registries = [tomllib.loads((ROOT / name).read_text()) for name in REGISTRIES]
    files = {
        OUT / f"{pathlib.PurePath(name).parent.name}.toml": environment(name, python)
        for name in sorted(locks(registries))
    }
    OUT.mkdir(exist_ok=True)
    for stale in set(OUT.glob("*.toml")) - set(files):
        stale.unlink()
    for path, text in files.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
