"""A model's card: what was measured and noted, as Markdown that a person reads before using the model.

run_record.py       what a finished run left: plan, summary, environments
weights.py          the checkpoints of a model: parameters and bytes
evaluations.py      documents of `baleen eval --json`, and the command that makes each again
provenance.py       what is known of backbones and datasets: names, licences
retriever_card.py   of a retriever that was ready: what its own card says
subject.py          all of these together: what a card is about
describing.py       sections about the model: what it is, how it is used, its components
making.py           sections about its making: data, trainings, environments
measuring.py        the section of results
advice.py           sections of ours: what it is for and not for, its limits and biases, licences
writing.py          the card: front matter, sections in their order, and what was left out

Everything that a card says of a run comes from files; a section whose files are missing is left out.
"""
