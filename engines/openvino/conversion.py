"""Converts a GGUF file to OpenVINO's own form of a model, which is kept beside the file.

GenAI converts a GGUF file whenever it loads one; it doesn't return the result, but saves it if it
is told to. The conversion is made once, by a process of its own, because the memory that it takes
is no part of the memory that a model needs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from engine import EngineError
from model_files import unusable

MODEL = "openvino_model.xml"
# By variant: the kind of error that a failed conversion is, and the program that failed.
READERS = {
    "": ("internal", "OpenVINO GenAI"),
    "frontend": ("unsupported", "OpenVINO's GGUF frontend"),
}


def converted(model_dir: Path, weights: str, reader: str) -> Path:
    """Return the path of the converted model, which is made if it doesn't exist. The name of its
    directory contains the reader and the file's size and modification time, so that other weights
    get another directory."""
    source = model_dir / weights
    if source.suffix != ".gguf":
        raise EngineError("unsupported", f"openvino reads GGUF files here, not {weights}")
    try:
        status = source.stat()
    except OSError as error:
        raise unusable(source, f"cannot be read ({error.strerror})") from None
    made_by = f"{reader}.openvino" if reader else "openvino"
    name = f"{source.stem}-{status.st_size:x}-{status.st_mtime_ns:x}.{made_by}"
    target = model_dir / name
    if not (target / MODEL).is_file():
        convert(source, target, reader)
    return target / MODEL


def convert(source: Path, target: Path, reader: str) -> None:
    """Make `target`, completely or not at all. A file that the newer reader, a preview, can't
    convert is unsupported."""
    with tempfile.TemporaryDirectory(dir=source.parent, prefix=f"{target.name}.") as new:
        # GenAI writes beside the file that it reads.
        link = Path(new) / source.name
        link.symlink_to(source.resolve())
        program = Path(__file__).with_name("save_model.py")
        ended = subprocess.run(
            [sys.executable, program, *filter(None, [reader]), link],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        made = Path(new) / MODEL
        if ended.returncode != 0 or not made.is_file():
            why = [f"status {ended.returncode}", *ended.stderr.strip().splitlines()][-1]
            kind, who = READERS[reader]
            raise EngineError(kind, f"{who} cannot convert {source}: {why}")
        # A tokenizer is made too, but nothing uses it.
        kept = Path(new) / "kept"
        kept.mkdir()
        for file in (made, made.with_suffix(".bin")):
            file.rename(kept / file.name)
        kept.rename(target)
