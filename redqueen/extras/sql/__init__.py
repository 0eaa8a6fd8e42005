"""The language SQL over SQLite: predict the rows, find the rows of the tables, write the query."""

from __future__ import annotations

from redqueen.tasks.kinds.language import Recipe

RECIPES = (
    Recipe(
        name="sql",
        sentence="2 teachers and 2 students on the bundled model, with queries for SQLite: minutes on two CPU cores.",
        # Databases are drawn beside a teacher's two, so two are enough.
        settings=(
            "game.kinds=sql_o,sql_i,sql_f game.proposals=8 game.attempts=8 game.min_inputs=2 game.max_inputs=2 "
            "game.references=2 game.references_from=seeds game.seed_tasks=96 game.teacher_reward=novel "
            "sampling.temperature=1.0 sampling.proposal_tokens=128 sampling.attempt_tokens=64 sampling.batch_rows=96 "
            "learning.lr=3e-4 learning.teacher_lr=3e-5 learning.batch_tokens=1024 "
            "evolution.every=10 evolution.gamma=0.25 evolution.burn_in=5 "
            "evals.every=24 evals.limit=168 run.steps=24 run.keep_every=12"
        ),
    ),
)
