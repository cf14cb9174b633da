# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Which words and which states carry an answer
# A model completes *The keys to the cabinet [MASK] on the table* with *are*. Which words of the sentence made it say
# so, and where inside the model is that answer held?
#
# The notebook starts a server of its own with the embedded model. Open it with `jupytext --to notebook answers.py`,
# from `examples/notebooks`.

# %%
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bertscope

examples = Path("..")
ports = Path(tempfile.mkdtemp(), "ports.json")
flags = ["--port", "0", "--metrics-port", "0", "--port-file", str(ports), "--log-level", "warning"]
server = subprocess.Popen([sys.executable, "-m", "bertscope_service", *flags])
while not ports.exists() and server.poll() is None:
    time.sleep(0.1)
client = bertscope.Client(f"127.0.0.1:{json.loads(ports.read_text())['port']}")
client.wait_until_serving(timeout=300)
# %load_ext bertscope_workbench
client

# %% [markdown]
# ## The answer
# `are` against `is`: what counts is by how much one is likelier.

# %%
text, other = "The keys to the cabinet [MASK] on the table.", "The key to the cabinet [MASK] on the table."
answers = client.fill_mask([text, other], candidates=["are", "is"])
answers

# %% [markdown]
# ## Which words made it?
# Shapley values divide the difference between all words and none among the words; they add up to it. A notebook shows
# them as coloured words. A positive value speaks for *are*, a negative one for *is*.

# %%
(words,) = client.attribute_words(text, bertscope.Answer("are", "is"))
print(words)
words

# %% [markdown]
# ## Which states carry it?
# Put one state of the first sentence into the run of the second, which says *is*, and see how much of the answer
# comes back: 0 nothing, 1 all of it (activation patching; Vig et al. 2020). A row is a layer, a column a token:
# follow where the largest number lies from the first layer to the last.

# %%
trace = client.trace(text, other, bertscope.Answer("are", "is"))
recovery = trace.to_pandas().pivot(index="layer", columns=["position", "name"], values="recovery")
recovery.astype(float).round(2)

# %% [markdown]
# ## And where is it readable?
# The output head, applied to the state of the mask at every layer, says from which layer on the answer is written
# there (the logit lens).

# %%
client.read_layers([text], candidates=["are", "is"]).to_pandas()

# %%
client.close()
server.terminate()
server.wait()
