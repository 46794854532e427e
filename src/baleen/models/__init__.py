"""Floor 2: torch and transformers.  Never imports `index`.

checkpoint.py     a component on disk: safetensors and config.json
difference.py     a checkpoint stored as its difference to another
folder.py         a whole model: its components and settings
backbone.py       any Hugging Face encoder, and the starting projection
loading.py        a checkpoint as a module on a device
device.py         devices, precision, int8, inference
cpu_attention.py  attention in bfloat16 on a CPU
packing.py        many texts in one row of tokens
markup.py         how titles and texts are joined
tokens.py         retriever inputs and batches
encoder.py        FLIPR and Encoder: text to vectors
memory.py         caches of tokens
pairs.py          cross-encoder inputs
cross_encoder.py  CrossEncoder: scores for pairs of texts
"""
