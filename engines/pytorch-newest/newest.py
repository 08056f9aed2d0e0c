"""`pytorch-newest`: the engine of ../pytorch with the newest releases of PyTorch and transformers.

The baseline keeps to the libtorch that burn-tch binds. What a user installs today is
measured beside it: the same code in another environment.

Run by the harness, or by hand: `echo '{"prompt":"Hello","model_path":"…"}' | python newest.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

# All modules are in ../pytorch; no module here has the name of one of them.
sys.path.append(str(Path(__file__).resolve().parent.parent / "pytorch"))

from bench import PyTorch
from protocol import main


class Newest(PyTorch):
    """The same engine in another environment."""

    engine_id = "pytorch-newest"
    lock = Path(__file__).with_name("requirements.lock")


if __name__ == "__main__":
    sys.exit(main(Newest))
