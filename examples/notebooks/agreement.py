# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Agreement, and the heads that carry it
# A verb agrees with its subject, not with the nearest noun: *the keys to the cabinet **are** on the table*. Does a
# model know that, and which of its attention heads does it need?
#
# The notebook starts a server of its own with the embedded model. Open it with `jupytext --to notebook agreement.py`,
# from `examples/notebooks`.

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
# ## Does the model prefer the right verb?
# Each pair differs in the verb alone. The score of a sentence is its pseudo-log-likelihood (Salazar et al. 2020); the
# model is right where the good sentence scores higher. Groups tell apart singular and plural subjects. Chance is 0.5:
# see whether the interval excludes it.

# %%
sets = bertscope_workbench.read_sets(examples / "agreement.tsv", groups="number")
comparison = client.compare_texts(sets)
comparison

# %% [markdown]
# ## Which heads attend from a verb to its subject?
# A treebank says which words are linked. The accuracy of a head is the share of pairs of which it attends most to the
# linked word (Clark et al. 2019). The rows below are the best of all heads; compare them with `chance`, and with the
# best fixed offset, which needs no grammar.

# %%
relations = client.score_relations(bertscope_workbench.read_conllu(examples / "sentences.conllu"))
relations["nsubj"]

# %% [markdown]
# ## Which heads does agreement need?
# A head that attends to subjects need not be used. So remove each head alone (its output becomes 0), and measure how
# many pairs are still right, and by how many nats. Most heads change none of these seven pairs, and a few change one or
# two: no interval of an accuracy leaves out 0. Scores are finer, and that of head 4:10 does; but of 72 intervals one or
# two on each side miss 0 by chance. Seven pairs are too few to name a head that is needed.

# %%
pairs = bertscope.MinimalPairs(bertscope_workbench.read_pairs(examples / "agreement.tsv"))
sweep = client.sweep_heads(pairs).table()
sweep

# %%
client.close()
server.terminate()
server.wait()
