# %% [markdown]
# # A model of your own
#
# Any causal language model can be a base: a name on the Hugging Face hub, or a folder. This notebook makes a folder
# with a tiny model of random weights, so that nothing is downloaded and a minute is enough. Put the name of yours in
# `MODEL`, and leave the next cell out.
#
#     pip install '.[train,data]'

# %%
import subprocess
import sys

import redqueen

MODEL = "tiny-model"

# %% [markdown]
# A Qwen3 of two layers, from a configuration, with a tokenizer that has one token for each byte. Which families are
# computed, and by what, is in docs/RUNS.md.

# %%
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

letters = sorted(pre_tokenizers.ByteLevel.alphabet())
by_byte = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
by_byte.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
by_byte.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=by_byte, eos_token="<end>", pad_token="<end>")
tokenizer.save_pretrained(MODEL)
shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 16}
heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192}
config = Qwen3Config(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, **shape, **heads)
Qwen3ForCausalLM(config).save_pretrained(MODEL)

# %% [markdown]
# A small model writes almost no valid task by itself, so neither side can learn. The adapter that ships is for the
# bundled model, so this one gets its own, by supervised learning. Leave `few` out for a model that is worth it. (A
# larger model may start from nothing: `population.init=fresh`. `redqueen train --model MODEL --dry-run` says what a
# run would need.)

# %%
few = ["--steps", "2", "--lessons", "2"]
warm_start = [sys.executable, "-m", "redqueen", "warm-start", "adapters/mine", "--model", MODEL]
made = subprocess.run([*warm_start, *few], check=True)

# %% [markdown]
# Members start from that adapter. `model.prompts=chat` is for instruct models of 1B and more; this is no such model.

# %%
settings = {"model.name": MODEL, "population.init": "adapters/mine", "game.proposals": 2, "game.attempts": 2}
run = redqueen.Run.train("quickstart", {**settings, "run.steps": 1}, path="runs/own-model")
print(run.steps_frame()[["valid_rate", "teacher_reward"]])

# %% [markdown]
# Noise, of course: `valid_rate` is what to look at first with a model of yours. A member is an ordinary PEFT adapter on
# your base.

# %%
model, tokens = run.load_model("best-student")
text = tokens("def f(x):", return_tensors="pt")
written = model.generate(**text, max_new_tokens=12, do_sample=False, pad_token_id=tokens.pad_token_id)
print(type(model).__name__, repr(tokens.decode(written[0])))
