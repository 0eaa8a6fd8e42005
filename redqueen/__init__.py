"""Red Queen: post-train language models by co-evolving teacher and student LoRA populations."""

__version__ = "0.1.0"
