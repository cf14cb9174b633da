# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # What is lost by compression
# A smaller model is faster, and worse at something. Accuracy on one task does not say at what. This notebook removes
# half of the layers of a model and measures speed and loss side by side.
#
# The notebook starts a server of its own with the embedded model. Open it with `jupytext --to notebook
# compression.py`, from `examples/notebooks`.

# %%
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bertscope
import bertscope_workbench

examples = Path("..")
ports = Path(tempfile.mkdtemp(), "ports.json")
flags = ["--port", "0", "--metrics-port", "0", "--port-file", str(ports), "--log-level", "warning"]
server = subprocess.Popen([sys.executable, "-m", "bertscope_service", *flags])
while not ports.exists() and server.poll() is None:
    time.sleep(0.1)
client = bertscope.Client(f"127.0.0.1:{json.loads(ports.read_text())['port']}")
client.wait_until_serving(timeout=300)
client

# %% [markdown]
# ## Make a smaller model
# Every second layer goes, without any training afterwards: it is the crudest cut, and shows what training has to
# bring back.

# %%
model = client.compress_model("half", [bertscope.keep_layers([0, 2, 4])])
model.compression[0]

# %% [markdown]
# ## Is it faster?
# The server times both in turns, so that a busy machine slows both. A speed-up counts if its interval leaves out 1.

# %%
report = client.benchmark_models(["bertscope-mini", "half"], lengths=[32], batch_sizes=[1], min_seconds=0.2, min_runs=10)
speedup = report.model("half").speed(32).latency_speedup
speedup

# %% [markdown]
# ## What does it know less of?
# The same pairs of sentences, asked of both models. Look at both groups: a loss need not be the same in each.

# %%
sets = bertscope_workbench.read_sets(examples / "agreement.tsv", groups="number")
whole, half = client.compare_texts(sets), client.compare_texts(sets, model="half")
print(whole)
half

# %% [markdown]
# ## Which layers still hold what they held?
# CKA compares the states of two layers over many texts: 1 is alike up to a rotation and a scale (Kornblith et al.
# 2019). The rows are the most similar layers.

# %%
texts = bertscope_workbench.read_texts(examples / "sentences.txt")
client.compare_representations(texts, other_model="half")

# %%
client.close()
server.terminate()
server.wait()
