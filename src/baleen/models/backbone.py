"""Backbones from Hugging Face, and the starting weights of a retriever's projection.

The projection starts at the principal components of the backbone's own token vectors.  MaxSim compares normalised
vectors, so the components come from their uncentred second moment.  Unscaled, the few directions that all vectors share
would dominate once the projected vectors are normalised again.  So each component is scaled by its eigenvalue to the
power -1/4, half of the way to equal weights.  An untrained encoder ranks clearly better with it; full whitening gains
little more on many texts and fits noise on few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.initialization import no_init_weights
from transformers.utils import logging as transformers_logging

from baleen.core.errors import CheckpointError, ConfigError
from baleen.models.tokens import EncoderConfig, SpecialTokens

# Keys of a configuration that describe its file, not the model.
_INCIDENTAL = ("transformers_version", "architectures", "dtype", "torch_dtype", "_name_or_path")


@dataclass(frozen=True, eq=False)
class Backbone:
    """A pretrained encoder with its tokenizer, in float32 and without a pooler."""

    model: Any
    tokenizer: Tokenizer
    tokens: SpecialTokens

    @property
    def config(self) -> dict[str, Any]:
        """The configuration from which `build_backbone` makes an empty model of the same shape."""
        return {key: value for key, value in self.model.config.to_diff_dict().items() if key not in _INCIDENTAL}

    def add_tokens(self, *tokens: str) -> None:
        """Add missing tokens to the vocabulary; their embeddings start at the mean of all others."""
        new = [token for token in dict.fromkeys(tokens) if self.tokenizer.token_to_id(token) is None]
        if not new:
            return
        mean = self.model.get_input_embeddings().weight.detach().mean(dim=0)
        self.tokenizer.add_special_tokens(new)
        vocabulary = self.tokenizer.get_vocab(with_added_tokens=True)
        numbers = [vocabulary[token] for token in new]
        if max(numbers) >= self.model.get_input_embeddings().num_embeddings:
            self.model.resize_token_embeddings(max(numbers) + 1, mean_resizing=False)
        with torch.no_grad():
            self.model.get_input_embeddings().weight[numbers] = mean


def max_positions(model: Any) -> int | None:
    """The most tokens that a sequence may have; None if positions are relative and there is no limit."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            unused = 0 if module.padding_idx is None else module.padding_idx + 1  # RoBERTa counts from there
            return module.num_embeddings - unused
    return getattr(model.config, "max_position_embeddings", None)


def check_lengths(config: EncoderConfig, model: Any) -> None:
    """Refuse lengths beyond the positions of the backbone `model`."""
    limit, query = max_positions(model), config.query_length + config.facts_length
    if limit is not None and config.passage_length > limit:
        raise ConfigError(f"passage_length = {config.passage_length}, but the backbone holds {limit}: set it lower")
    if limit is not None and query > limit:
        room = (
            f"set facts_length to {limit - config.query_length}" if limit >= config.query_length else "set both lower"
        )
        raise ConfigError(f"query_length + facts_length = {query}, but the backbone holds {limit}: {room}")


def load_backbone(folder: Path) -> Backbone:
    """Load a model folder in the layout of the Hugging Face hub; CheckpointError if it is incomplete."""
    try:
        with _quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model, report = AutoModel.from_pretrained(
                folder, local_files_only=True, dtype=torch.float32, output_loading_info=True
            )
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{folder}: not a model that transformers can load: {reason}") from error
    missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise CheckpointError(f"{folder}: the model lacks weights: {', '.join(missing[:3])}")
    return Backbone(_without_pooler(model), _fast_tokenizer(tokenizer, folder), _special_tokens(tokenizer))


def build_backbone(config: Mapping[str, Any]) -> Any:
    """Build a model of this configuration with uninitialised weights."""
    empty: Any = AutoModel  # untyped
    try:
        with no_init_weights():
            return _without_pooler(empty.from_config(AutoConfig.for_model(**config), dtype=torch.float32))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"backbone.json: not a model that transformers can build: {error}") from error


def _without_pooler(model: Any) -> Any:
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def _fast_tokenizer(tokenizer: Any, folder: Path) -> Tokenizer:
    """Copy the tokenizer out of its transformers wrapper."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None:
        raise CheckpointError(f"{folder}: its tokenizer has no fast version, which Baleen needs")
    return Tokenizer.from_str(inner.to_str())


def _special_tokens(tokenizer: Any) -> SpecialTokens:
    cls, sep = tokenizer.cls_token or tokenizer.bos_token, tokenizer.sep_token or tokenizer.eos_token
    if cls is None or sep is None:
        raise ConfigError(
            "the backbone's tokenizer lacks a token for the start or the end of a text (cls and sep, or bos and eos)"
        )
    return SpecialTokens(cls=cls, sep=sep, pad=tokenizer.pad_token or sep, mask=tokenizer.mask_token)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' progress bars and its report of unused heads."""
    logs: Any = transformers_logging
    level, bars = logs.get_verbosity(), logs.is_progress_bar_enabled()
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        logs.set_verbosity(level)
        if bars:
            logs.enable_progress_bar()


_FLOOR = 1e-4  # smallest eigenvalue, as a share of the largest: rare directions are not blown up

# The texts for a starting projection if there is no corpus: plain English of many kinds, some thousand tokens in all.
SAMPLE_TEXTS: tuple[str, ...] = (
    "Lisbon is the capital of Portugal and its largest city. It lies at the mouth of the Tagus, on seven hills, "
    "and its harbour made it rich in the age of discovery. An earthquake destroyed much of it in 1755, and the "
    "Marquis of Pombal had the lower town rebuilt on a grid.",
    "Marie Curie (1867-1934) was a Polish and French physicist and chemist who studied radioactivity. She was the "
    "first woman to win a Nobel Prize, the first person to win it twice, and the only one to win it in two "
    "sciences. Her husband Pierre shared the first of them.",
    "The film was directed by a former cameraman and stars three actors of the national theatre. It premiered at "
    "the Venice Film Festival in September 1962, won the prize for best screenplay, and was remade for television "
    "twenty years later by another studio.",
    "The club was founded in 1903 by railway workers and plays its home matches in blue and white. It won the "
    "league four times, lost two cup finals against its rivals from across the river, and was relegated to the "
    "second division in 2011 after a season with only six wins.",
    "Photosynthesis turns carbon dioxide and water into sugar and oxygen by the energy of light. In plants it "
    "takes place in the chloroplasts, whose green pigment, chlorophyll, absorbs mostly red and blue light. Some "
    "bacteria use other pigments and give off no oxygen.",
    "The Battle of Lake Trasimene was fought on 24 June 217 BC between Hannibal's army and the Romans under Gaius "
    "Flaminius. The Carthaginians hid in the hills above the shore, attacked the marching column in the morning "
    "mist, and killed the consul and fifteen thousand men.",
    "Her second album was recorded in Nashville with a band of session musicians and released by an independent "
    "label. The lead single reached number three on the charts, was certified platinum, and earned her a Grammy "
    "nomination for best country song. She toured with it through Canada and Japan.",
    "The company reported net income of $412 million for the third quarter, compared with $388 million a year "
    "earlier. Revenue grew by 6%, mainly in the cloud segment, while operating expenses rose because of higher "
    "salaries. The board declared a dividend of 35 cents per share.",
    "Aspirin lowers fever, eases pain and keeps blood platelets from clumping together. It should not be given to "
    "children with a viral infection. Patients who take it every day have a higher risk of bleeding in the "
    "stomach, and the trial found no benefit in healthy adults over seventy.",
    "A queue is a data structure whose first element in is the first one out. It can be made of a linked list or "
    "of a circular buffer. Both operations take constant time; if several threads use it at once, a lock or an "
    "atomic counter has to guard the head and the tail.",
    "The Supreme Court held that the statute violated the First Amendment, since it restricted speech because of "
    "its content. Two justices dissented and argued that the state had a legitimate interest in protecting "
    "minors. The case was sent back to the court of appeals.",
    "The humpback whale lives in every ocean and migrates up to 16,000 kilometres each year. It feeds on krill "
    "and small fish in cold water and gives birth in the tropics. Males sing long songs, which change from season "
    "to season and spread from one population to the next.",
    "Who wrote the novel on which the 1958 film was based, and in which country was the author born? Is the "
    "director older than the composer of the music? Which of the two magazines was started first, and where did "
    "the mother of its founder study?",
    "The novel tells of a schoolteacher who returns to her village after the war and finds her brother's letters. "
    "Critics praised its dry humour and its portrait of rural life. It was translated into eleven languages and "
    "shortlisted for the Booker Prize, but it sold poorly at home.",
    "Heat the oil in a heavy pan, add the chopped onions and a pinch of salt, and cook them slowly until they are "
    "soft and golden. Stir in the flour, pour on the stock a little at a time, and let the sauce simmer for about "
    "twenty minutes before you add the cream.",
    "The river rises in the Andes at a height of 5,200 metres, flows east through the rain forest for six hundred "
    "miles, and joins the Amazon below Manaus. Its upper valley has been inhabited since at least 3000 BC; today "
    "most people there grow coffee, maize and potatoes.",
    "King Henry married Eleanor, the daughter of the Duke of Aquitaine, in May 1152. Their sons Richard and John "
    "both succeeded him to the throne. His grandson, who was crowned at the age of nine, reigned for fifty-six "
    "years and rebuilt Westminster Abbey.",
    "The Boeing 747 first flew on February 9, 1969. With its four engines and its upper deck it carried more than "
    "twice as many passengers as the airliners before it. The last of 1,574 was delivered to a cargo airline in "
    "January 2023, when twin-engined types had long taken its place.",
    "The senator, a Democrat from Ohio, was elected in 1994 and served three terms. Before that he was mayor of "
    "Dayton and a professor of economics at the state university. He voted against the war, supported the health "
    "care bill, and did not seek reelection because of illness.",
    "In mathematics a prime number is a natural number greater than one that has no divisors besides one and "
    "itself. Euclid proved that there are infinitely many. How they are distributed is the subject of the Riemann "
    "hypothesis, one of the great unsolved problems.",
    "The painting hangs in the Rijksmuseum in Amsterdam. It shows a young woman in a yellow jacket who reads a "
    "letter by a window, and it was bought by a banker at an auction in 1822 for less than two hundred guilders. "
    "X-rays revealed a map behind the table, which the painter had covered.",
    "The software is released under the MIT licence and runs on Linux, macOS and Windows. To install it, download "
    "the archive, unpack it, and run the setup script; if the test fails with an error message, check that the "
    "path to the library is set and that version 3.11 or later is present.",
    "Islam reached the coast of East Africa through merchants from Oman and Yemen. Cities such as Kilwa, Mombasa "
    "and Zanzibar traded gold, ivory and cloth across the Indian Ocean, built mosques of coral stone, and spoke "
    "Swahili, a Bantu language with many Arabic words.",
    "The telescope was launched aboard an Ariane 5 rocket from French Guiana on Christmas Day 2021. Its mirror of "
    "eighteen gilded segments observes infrared light from galaxies that formed a few hundred million years after "
    "the Big Bang, and from the atmospheres of planets around other stars.",
)


def principal_components(vectors: Iterable[Tensor], dim: int) -> Tensor:
    """Compute the projection's starting weight: batches of token vectors (n, hidden) -> (dim, hidden).

    Vectors are normalised here.  The rows are orthogonal, and their mean square length is 1.
    """
    moment = _second_moment(vectors)
    if dim > len(moment):
        raise ConfigError(f"dim = {dim}, but the backbone's vectors have only {len(moment)} dimensions: set dim lower")
    values, axes = torch.linalg.eigh(moment)  # ascending, axes in columns
    leading, values = axes.T.flip(0)[:dim], values.flip(0)[:dim]
    scales = values.clamp(min=_FLOOR * float(values[0])).pow(-0.25)
    weight: Tensor = leading * (scales / scales.square().mean().sqrt()).unsqueeze(1)  # (dim, hidden)
    return weight.float().contiguous()


def _second_moment(batches: Iterable[Tensor]) -> Tensor:
    """The mean outer product of the normalised vectors, (hidden, hidden), in double precision."""
    total: Tensor | None = None
    count = 0
    for batch in batches:
        unit = torch.nn.functional.normalize(batch.double(), dim=-1)
        part = unit.T @ unit
        total, count = part if total is None else total + part, count + len(unit)
    if total is None:
        raise ConfigError("no text to fit the projection to: give at least one")
    return total / max(1, count)
