"""Questions and claims with their gold passages, out of the official files of five datasets or a plain JSONL of one's own.

example.py      Example: one question or claim, and what is known of it
reading.py      read_examples: a file into examples
shapes.py       what the records of each dataset look like
fields.py       one key of a record: there, of the right type, or one clear line
gold.py         Catalogue, resolve_gold: titles and ids of gold passages against those of a corpus

examples = read_examples("hover", "hover_train_release_v1.1.json")
examples, report = resolve_gold(examples, Catalogue.of(corpus.read("wiki.jsonl")))
"""

from baleen.datasets.example import LABELS, Example
from baleen.datasets.gold import Catalogue, GoldReport, Resolved, resolve_gold
from baleen.datasets.reading import DATASETS, read_examples

__all__ = ["DATASETS", "LABELS", "Catalogue", "Example", "GoldReport", "Resolved", "read_examples", "resolve_gold"]
