"""Small fakes for all tests: a corpus of eight passages, and random backbones and encoders of two layers.

Nothing uses the network, and the same seed gives the same weights.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baleen.core.types import Fact, Passage, Query

if TYPE_CHECKING:
    from baleen.models.encoder import Encoder

_TEXTS: dict[str, list[str]] = {
    "Lena Orlova": [
        "Lena Orlova is a marine biologist who studies whale song.",
        "She was born in Tromsk and teaches at the University of Vardal.",
    ],
    "University of Vardal": [
        "The University of Vardal was founded in 1811.",
        "It stands in the harbour town of Vardal.",
    ],
    "Vardal": ["Vardal is a harbour town on the Grey Fjord.", "Its mayor, since 2015, is Ivo Brandt."],
    "Ivo Brandt": ["Ivo Brandt is a politician and former cellist.", "He wrote the opera The Deep Choir."],
    "The Deep Choir": ["The Deep Choir is an opera in three acts.", "It is sung by whales, so to speak."],
    "Tromsk": ["Tromsk is a mining town.", "Its silver mine closed in 1974."],
    "Grey Fjord": ["The Grey Fjord is 90 km long.", "Humpback whales feed there in winter."],
    "Humpback whale": ["The humpback whale is a baleen whale.", "", "Males sing songs that last 20 minutes."],
}

CORPUS: list[Passage] = [
    Passage.from_sentences(f"p{number}", title, sentences) for number, (title, sentences) in enumerate(_TEXTS.items())
]

QUERIES: list[Query] = [
    Query("Who is the mayor of the town where Lena Orlova teaches?"),
    Query(
        "Who is the mayor of the town where Lena Orlova teaches?",
        (
            Fact("p0", 1, "Lena Orlova", "She was born in Tromsk and teaches at the University of Vardal."),
            Fact("p1", 1, "University of Vardal", "It stands in the harbour town of Vardal."),
        ),
    ),
    Query("whales"),
]

BERT_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROBERTA_TOKENS = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
_SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def vocabulary(
    special: Mapping[str, str] = BERT_TOKENS, markers: Sequence[str] = ("[unused0]", "[unused1]")
) -> list[str]:
    """Return a WordPiece vocabulary: special tokens, markers, punctuation, letters, every second word of the corpus."""
    words = sorted(
        {word for title, text in _TEXTS.items() for word in re.findall(r"[a-z]+", f"{title} {text}".lower())}
    )
    letters = list(string.ascii_lowercase + string.digits)
    pieces = [f"##{letter}" for letter in letters] + ["##ing"]
    return list(dict.fromkeys([*special.values(), *markers, *string.punctuation, *letters, *pieces, *words[::2]]))


def bert_folder(folder: Path, seed: int = 0, words: list[str] | None = None, **settings: Any) -> Path:
    """Save a random BERT and its tokenizer, with `words` or the default vocabulary, in the layout of the hub."""
    from transformers import BertConfig, BertModel

    words = words or vocabulary()
    config = BertConfig(vocab_size=len(words), **{"max_position_embeddings": 512, **_SIZES, **settings})
    return _save(folder, BertModel, config, words, BERT_TOKENS, seed)


def electra_folder(folder: Path, seed: int = 0) -> Path:
    """Save a random ELECTRA, whose embeddings are narrower than its layers."""
    from transformers import ElectraConfig, ElectraModel

    words = vocabulary()
    config = ElectraConfig(vocab_size=len(words), embedding_size=16, max_position_embeddings=512, **_SIZES)
    return _save(folder, ElectraModel, config, words, BERT_TOKENS, seed)


def roberta_folder(folder: Path, seed: int = 0) -> Path:
    """Save a random RoBERTa: other special tokens, no markers in the vocabulary, positions from 2, one token type."""
    from transformers import RobertaConfig, RobertaModel

    words = vocabulary(ROBERTA_TOKENS, markers=())
    ids: dict[str, Any] = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = RobertaConfig(vocab_size=len(words), max_position_embeddings=514, type_vocab_size=1, **ids, **_SIZES)
    return _save(folder, RobertaModel, config, words, ROBERTA_TOKENS, seed)


def tiny_encoder(folder: Path, dim: int = 16, seed: int = 0, **settings: Any) -> Encoder:
    """Make a random encoder over a two-layer BERT, saved in `folder`, with these settings of EncoderConfig."""
    from baleen.models.encoder import Encoder
    from baleen.models.tokens import EncoderConfig

    backbone = bert_folder(folder / "backbone", seed)
    return Encoder.from_backbone(backbone, [passage.text for passage in CORPUS], EncoderConfig(dim=dim, **settings))


def _save(folder: Path, model: Any, config: Any, words: list[str], special: Mapping[str, str], seed: int) -> Path:
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model(config).save_pretrained(folder)
    wordpiece(words, special).save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{role}_token": token for role, token in special.items()},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def wordpiece(words: list[str], special: Mapping[str, str]) -> Any:
    """Make a tokenizer that lowercases and splits unknown words into letters."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token=special["unk"]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(special.values()))
    return tokenizer
