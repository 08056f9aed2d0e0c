"""A tokenizer that converts token ids to text and back without loss.

The wheel takes and returns text. With the model's own tokenizer, a prompt that was cut between two
tokens may be read as other tokens, and a token that is special or ends within a character has no
text of its own, so its time can't be told. So the wheel is given the model's vocabulary with a
tokenizer that looks up whole pieces between separators: each token is one piece of text, on the way
in and on the way out. No engine here tokenises while it is timed; the harness has done it.
"""

from __future__ import annotations

import json
from pathlib import Path

from engine import EngineError
from model_files import read_json, unusable

# Characters of the private use area. The first one that no piece contains separates the pieces.
SEPARATORS = range(0xE000, 0xF8FF)


class IdTokenizer:
    """The pieces of a vocabulary, one for each id."""

    def __init__(self, pieces: dict[str, int]) -> None:
        self._ids = pieces
        self._pieces = {id: piece for piece, id in pieces.items()}
        used = set().union(*pieces)
        self._separator = next(chr(code) for code in SEPARATORS if chr(code) not in used)

    @classmethod
    def of_model(cls, path: Path) -> IdTokenizer:
        """Read the vocabulary of a tokenizer.json."""
        tokenizer = read_json(path)
        try:
            pieces = dict(tokenizer["model"]["vocab"])
            for added in tokenizer.get("added_tokens", []):
                pieces[added["content"]] = added["id"]
        except (KeyError, TypeError, ValueError):
            raise unusable(path, "has no vocabulary that could be read") from None
        if not pieces:
            raise unusable(path, "has an empty vocabulary")
        # The wheel decodes such pieces to bytes, and holds bytes back until they form a character.
        if any(piece.startswith("<0x") and piece.endswith(">") for piece in pieces):
            raise EngineError(
                "unsupported",
                f"{path} has tokens that are single bytes (byte fallback), which the wheel does "
                "not give one by one",
            )
        return cls(pieces)

    def write(self, path: Path) -> None:
        """Write a tokenizer.json."""
        tokenizer = {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"String": self._separator},
                "behavior": "Removed",
                "invert": False,
            },
            "post_processor": None,
            # mistral.rs knows this decoder; pieces that are not bytes pass through it unchanged.
            "decoder": {
                "type": "Sequence",
                "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}],
            },
            "model": {"type": "WordLevel", "vocab": self._ids, "unk_token": next(iter(self._ids))},
        }
        path.write_text(json.dumps(tokenizer), encoding="utf-8")

    def text(self, ids: list[int]) -> str:
        """Return a prompt that the wheel reads as `ids`."""
        try:
            return self._separator.join(self._pieces[id] for id in ids)
        except KeyError as error:
            raise EngineError("bad_request", f"the tokenizer has no token {error}") from None

    def id(self, piece: str) -> int:
        """Return the id of a piece."""
        id = self._ids.get(piece)
        if id is None:
            raise EngineError("internal", f"mistral.rs gave {piece!r}, which is no single token")
        return id
