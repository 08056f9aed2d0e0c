"""A GGUF file as OpenVINO's own form of a model, made by one of its readers and kept beside it.

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
# By variant: what a conversion that fails is, and who failed.
READERS = {
    "": ("internal", "OpenVINO GenAI"),
    "frontend": ("unsupported", "OpenVINO's GGUF frontend"),
}


def converted(model_dir: Path, weights: str, reader: str) -> Path:
    """The converted model, made if it isn't there. The name of its directory has the reader, the
    file's size and its time of change, so that other weights get another."""
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
    """Make `target`, which is there whole or not at all. What the newer reader, a preview, doesn't
    take is unsupported."""
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
        # A tokenizer is made too; nobody asks it.
        kept = Path(new) / "kept"
        kept.mkdir()
        for file in (made, made.with_suffix(".bin")):
            file.rename(kept / file.name)
        kept.rename(target)
