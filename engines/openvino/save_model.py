"""Let OpenVINO read a GGUF file and save its own form of the model beside it. A program of its
own: conversion.py says why.

    python save_model.py FILE.gguf             GenAI's reader
    python save_model.py frontend FILE.gguf    OpenVINO's newer one (frontend.py)
"""

import sys
from pathlib import Path


def main(gguf: str, reader: str) -> int:
    """Convert the file; return the exit status. If it fails, the last line on stderr says why."""
    try:
        if reader == "frontend":
            import openvino

            import frontend

            model = frontend.adapt(openvino, frontend.read(openvino, gguf))
            made = Path(gguf).with_name("openvino_model.xml")
            openvino.save_model(model, made, compress_to_fp16=False)
        else:
            import openvino_genai

            openvino_genai.LLMPipeline(gguf, "CPU", enable_save_ov_model=True)
    except RuntimeError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1], "".join(sys.argv[1:-1])))
