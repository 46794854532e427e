"""Multi-hop claims and questions generated from a corpus: see `synthesizing.synthesize` and docs/synthesis.md.

synthesizing.py                      generate claims and questions from a graph
settings.py                          settings of a synthesis
graph.py                             pages, and their mentions of each other
pages.py                             a passage parsed: subject, kind, statements
mentions.py                          all titles mentioned in a text
clauses.py                           sentences into clauses
phrases.py                           text parts with their sources
drafts.py                            true statements over several pages, by kind
drafting.py                          draft statements from clauses
falsehoods.py                        false and unsupported statements
questions.py                         questions from drafts
gaps.py                              questions with a gap
quality.py                           checks that a claim reads as English
avoiding.py                          evaluation questions to avoid
solving.py                           BM25 rank of the gold passages
tallying.py                          counts by hops, kind and form
lexicon.py, past_verbs.py, words.py  word lists
"""
