"""Keys before rotary embedding and values of a token sequence, by the independent numpy model.

oracle_kv.py REFERENCE_DIR MODEL TOKENS OUT: TOKENS is int32, OUT float32 [layer][K|V][token][head][dim].
"""
import sys

import numpy as np

reference, model_path, tokens_path, out_path = sys.argv[1:]
sys.path.insert(0, reference)
from model import Model, load_gguf  # noqa: E402

model = Model(*load_gguf(model_path))
_, cells, _ = model.forward(np.fromfile(tokens_path, np.int32), logits=False)
with open(out_path, "wb") as f:
    for k, v in cells:
        k.astype(np.float32).tofile(f)
        v.astype(np.float32).tofile(f)
