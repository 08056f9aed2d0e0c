"""Has OpenVINO GenAI load a GGUF file and save its own form of the model beside it. A program of
its own (conversion.py says why), which needs nothing else of this folder.

    python save_model.py FILE.gguf
"""

import sys

import openvino_genai


def main(gguf: str) -> int:
    """The exit status; why not is the last line on stderr."""
    try:
        openvino_genai.LLMPipeline(gguf, "CPU", enable_save_ov_model=True)
    except RuntimeError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
