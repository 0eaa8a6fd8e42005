"""The language `expr`: expressions over two small integers, in which a small model learns in minutes."""

from __future__ import annotations

from redqueen.tasks.kinds.language import Recipe

RECIPES = (
    Recipe(
        name="expr",
        sentence="2 teachers and 2 students on arithmetic expressions: minutes on two CPU cores.",
        settings=(
            "game.kinds=expr_o,expr_i game.proposals=8 game.attempts=12 game.min_inputs=8 game.max_inputs=8 "
            "game.references=2 game.references_from=seeds game.teacher_reward=novel "
            "sampling.temperature=1.0 sampling.proposal_tokens=48 sampling.attempt_tokens=16 sampling.batch_rows=128 "
            "learning.lr=2e-4 learning.teacher_lr=3e-5 learning.batch_tokens=1024 "
            "evolution.every=10 evolution.gamma=0.25 evolution.burn_in=5 sandbox.value_bytes=400 "
            "evals.every=20 evals.limit=160 run.steps=40 run.keep_every=10"
        ),
    ),
)
