"""A GGUF file as OpenVINO's own form of a model, made by GenAI's reader and kept beside the file.

GenAI converts whenever it loads a GGUF file, and hands the result to nobody; it saves it where it
is told to. That is done once, by a process of its own: what a conversion takes is no part of the
memory that a model needs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from engine import EngineError
from model_files import unusable

MODEL = "openvino_model.xml"


def converted(model_dir: Path, weights: str) -> Path:
    """The converted model, made if it isn't there. The name of its directory has the file's size
    and time of change, so that other weights get another."""
    source = model_dir / weights
    if source.suffix != ".gguf":
        raise EngineError("unsupported", f"openvino reads GGUF files here, not {weights}")
    try:
        status = source.stat()
    except OSError as error:
        raise unusable(source, f"cannot be read ({error.strerror})") from None
    name = f"{source.stem}-{status.st_size:x}-{status.st_mtime_ns:x}.openvino"
    target = model_dir / name
    if not (target / MODEL).is_file():
        convert(source, target)
    return target / MODEL


def convert(source: Path, target: Path) -> None:
    """Make `target`, which is there whole or not at all."""
    with tempfile.TemporaryDirectory(dir=source.parent, prefix=f"{target.name}.") as new:
        # GenAI writes beside the file that it reads.
        link = Path(new) / source.name
        link.symlink_to(source.resolve())
        ended = subprocess.run(
            [sys.executable, Path(__file__).with_name("save_model.py"), link],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        made = Path(new) / MODEL
        if ended.returncode != 0 or not made.is_file():
            why = [f"status {ended.returncode}", *ended.stderr.strip().splitlines()][-1]
            raise EngineError("internal", f"OpenVINO GenAI cannot convert {source}: {why}")
        # A tokenizer is made too; nobody asks it.
        kept = Path(new) / "kept"
        kept.mkdir()
        for file in (made, made.with_suffix(".bin")):
            file.rename(kept / file.name)
        kept.rename(target)
