"""Floor 2: torch and transformers.  Never imports `index`.

checkpoint.py     a component on disk: safetensors and config.json
folder.py         a whole model: its components and settings
backbone.py       any Hugging Face encoder, and the starting projection
device.py         devices, precision, int8
cpu_attention.py  attention in bfloat16 on a CPU
packing.py        many texts in one row of tokens
tokens.py         retriever inputs and batches
encoder.py        FLIPR and Encoder: text to vectors
markup.py         how titles and texts are joined
pairs.py          cross-encoder inputs
memory.py         caches of tokens
cross_encoder.py  CrossEncoder: scores for pairs of texts"""
