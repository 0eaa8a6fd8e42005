"""The language `expr`: expressions over two small integers, in which a small model learns in minutes."""

from __future__ import annotations

from redqueen.tasks.kinds.language import Recipe

RECIPES = (
    Recipe(
        name="expr",
        sentence="1 teacher and 1 student on arithmetic expressions: 30 to 90 minutes on two CPU cores.",
        # Rates, imitation and references are those of the pilots in docs/reports/THINKING.md; the start has rank 4.
        settings=(
            "model.prompts=work model.rank=4 model.alpha=8 population.teachers=1 population.students=1 "
            "game.kinds=expr_o,expr_i game.proposals=12 game.attempts=8 game.min_inputs=8 game.max_inputs=8 "
            "game.references=2 game.references_from=all game.teacher_reward=novel "
            "sampling.temperature=1.0 sampling.proposal_tokens=48 sampling.attempt_tokens=160 sampling.batch_rows=128 "
            "learning.lr=1e-4 learning.imitation=0.5 learning.batch_tokens=1024 "
            # One pair has no births. With more members, evolution.enabled=true is enough.
            "evolution.enabled=false evolution.every=10 evolution.gamma=0.25 evolution.burn_in=5 "
            "sandbox.value_bytes=400 evals.every=50 evals.limit=360 run.steps=100 run.keep_every=25"
        ),
    ),
)
