"""A run from its start to its end: checked, fitted into memory, opened, and trained or resumed.

Nothing is printed here, and there are no exit codes: a `Listener` hears what happens, recorders receive the steps, what
a person can correct is a UserError, and Ctrl-C is a KeyboardInterrupt. The command line and `redqueen.Run` are two
callers of this module.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import transformers

from redqueen import extras
from redqueen.base.machine import cache_root
from redqueen.config import (
    BUNDLED,
    Config,
    EvalsConfig,
    GameConfig,
    LeagueConfig,
    ModelConfig,
    SamplingConfig,
)
from redqueen.engine.adapters import CONFIG, other_base
from redqueen.engine.memory import fit as memory
from redqueen.engine.memory.machine import check_engine, longest_text, this_machine
from redqueen.engine.model import check_quantized, hosted_positions
from redqueen.engine.model.base import BaseFacts, facts_of, load
from redqueen.engine.model.dimensions import token_counter
from redqueen.engine.model.source import cached, installed, read_config
from redqueen.engine.policy import MemberPolicy, open_policy
from redqueen.errors import AdapterError
from redqueen.evals.held_out import check_held_out
from redqueen.evals.registry import check_benchmarks
from redqueen.method.prompt_lengths import prompt_lengths
from redqueen.method.reward_probe import check_advantage, check_rewards
from redqueen.method.seeds import is_reserved, seeds_of
from redqueen.method.task_bank import fingerprint_of
from redqueen.method.verifier import LocalVerifier
from redqueen.records import PromptLengths, Verifier
from redqueen.run.recording.environment import environment, session
from redqueen.run.recording.measures import Spread
from redqueen.run.recording.metrics import check_own
from redqueen.run.recording.phases import NowRecorder
from redqueen.run.recording.recorder import Recorder, Session, check_trackers, open_recorders, open_trackers
from redqueen.run.trainer import Trainer
from redqueen.store import checkpoint
from redqueen.store.allowed import check_records, how_to_resume
from redqueen.store.archive.reader import damaged_archive, is_damage
from redqueen.store.dataset.files import fixed_tasks
from redqueen.store.directory import FITTED, RunDirectory, RunError
from redqueen.tasks.kinds import find


@dataclass(frozen=True, slots=True, kw_only=True)
class Players:
    """What a run plays with."""

    policy: MemberPolicy
    """Without members yet. The caller closes it."""
    base: BaseFacts
    verifier: Verifier
    spread: Spread = map
    """Computes a function of many tasks."""


@contextmanager
def open_players(config: Config, own: Verifier | None, warn: Callable[[str], None]) -> Generator[Players]:
    """Opens the policy and the verifier, and closes what judges in the end.

    `own` judges in place of the run's own verifier, and stays open; `warn` gets a line about each machine that is lost.
    """
    if config.cluster.address:
        with extras.find("cluster", "ray")(config, own, warn) as players:
            yield players
        return
    base = load(config.model)
    judge: AbstractContextManager[Verifier] = (
        nullcontext(own) if own is not None else LocalVerifier(config.sandbox, config.game.min_inputs, config.run.seed)
    )
    with judge as verifier:
        policy = open_policy(base, config.engine_settings, config.capacity)
        yield Players(policy=policy, base=facts_of(base), verifier=verifier)


_LOG = logging.getLogger("redqueen")


class Listener:
    """Hears what happens around the steps. By itself it hands the lines to Python's logging, under `redqueen`."""

    def note(self, line: str) -> None:
        """Is called with a line of what a person may want to know."""
        _LOG.info(line)

    def warning(self, line: str) -> None:
        """Is called with a line of what a person should look at."""
        _LOG.warning(line)

    def opening(self, config: Config, directory: RunDirectory) -> None:
        """Is called before the base is loaded. `config` is as it fits into memory."""

    def progress(self, done: int, total: int) -> None:
        """Is called as the start is evaluated: `done` of `total` answers are there."""

    def training(self) -> None:
        """Is called before the first step of the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """What the caller of a run attaches to it."""

    command: str
    """How the run was called, for its record."""
    listener: Listener = field(default_factory=Listener)
    recorders: Sequence[Recorder] = ()
    """They are closed when the training ends or fails."""
    verifier: Verifier | None = None
    """What judges in place of the run's own verifier. It stays open."""


def start(config: Config, directory: RunDirectory, attached: Callbacks) -> None:
    """Trains a new run in `directory`. Raises UserError, or KeyboardInterrupt if it was stopped."""
    # The directory comes first: a second process that wants it is refused before it has loaded anything.
    directory.claim()
    try:
        check(config)
        check_init(config.population.init)
        check_tasks(config.game, config.evals, config.league)
        fitted = fit(config, config.capacity, attached.listener)
        _train(config, fitted, directory, None, attached)
    finally:
        # A start that failed leaves nothing behind, which the next one would refuse to write into.
        directory.release()


def resume(config: Config, directory: RunDirectory, attached: Callbacks, given: Collection[str] = ()) -> None:
    """Trains the rest of the run in `directory`. `given` are the settings that were given for this session.

    Raises UserError, or KeyboardInterrupt if it was stopped.
    """
    directory.lock()
    try:
        # What is damaged or missing is found before anything is loaded or written.
        check(config)
        saved = checkpoint.load(directory.checkpoints, directory.saved()[-1])
        if line := check_records(directory, saved.step):
            attached.listener.warning(line)
        # What a killed process or a full disk left unfinished takes room that this session needs.
        with _writing(directory):
            checkpoint.clean(directory.checkpoints)
        # Other batches and another number of workers round differently. So a run goes on with what it had, if that
        # still fits: it may be on another machine now.
        before: list[str] = []
        if "model.device" not in given:
            before = [f"{key}={value}" for key, value in directory.fitted().items() if key not in given]
        fitted = fit(config.override(before), config.capacity, attached.listener)
        _train(config, fitted, directory, saved, attached)
    finally:
        directory.unlock()


def check(config: Config) -> None:
    """Raises UserError for what no run can do with, before anything is loaded or written."""
    check_rewards(config.game)
    check_advantage(config.advantage_settings)
    check_trackers(config.run.trackers)
    check_own(config.run.metrics)
    check_engine(config.model, config.sampling, config.learning, config.cluster)


def check_init(init: str) -> None:
    """Raises AdapterError if there is no adapter where `population.init` says that members start from."""
    if init not in ("auto", "fresh") and not (Path(init) / CONFIG).is_file():
        raise AdapterError(f"population.init={init} holds no adapter ({CONFIG}): give a PEFT folder, auto or fresh")


def check_tasks(game: GameConfig, evals: EvalsConfig, league: LeagueConfig) -> None:
    """Raises UserError for tasks that cannot be read: a file, a generator or a benchmark that is not there."""
    seeds_of(game)
    if game.tasks is not None:
        fixed_tasks(Path(game.tasks))
    check_held_out(game, league)
    check_benchmarks(evals)


def warnings_about(sampling: SamplingConfig, game: GameConfig, init: str, base: str) -> list[str]:
    """Returns one line for each setting that is allowed and that a person may not mean.

    `init` is the adapter that members start from, `base` the name of the model.
    """
    warnings: list[str] = []
    if sampling.truncates:
        warnings.append(
            "warning: with sampling.top_p below 1 or sampling.top_k above 0 members sample from fewer tokens than the "
            "learner's gradient is computed for: they learn off-policy (docs/ALGORITHM.md)"
        )
    warnings += [line] if (line := start_of_another_base(init, base)) else []
    # No shipped seed is reserved.
    if game.seeds is not None:
        drafts = seeds_of(game)
        reserved = sum(is_reserved(draft.program) for draft in drafts)
        if reserved:
            warnings.append(
                f"warning: {reserved} of {len(drafts)} programs of {game.seeds} are similar to held-out ones, "
                "up to names and constants: they are left out"
            )
    return warnings


def too_long(sampling: SamplingConfig, lengths: PromptLengths, shell: Any, *, hosted: bool) -> list[str]:
    """Returns warnings of texts that are longer than the base, whose configuration is `shell`, takes or is made for."""
    longest = longest_text(sampling, lengths)
    # Our own forward pass has no masks of sliding windows, and takes any position.
    most = hosted_positions(shell) if hosted else getattr(shell, "sliding_window", None) or 0
    if 0 < most < longest:
        # The lengths are bounds that few prompts reach, so this is no refusal: the sampler refuses what is too long.
        return [
            f"warning: a prompt and its text may have {longest:,} tokens, and this base takes {most:,} at most: a step "
            "with a longer one ends the run. Set game.references, sampling.proposal_tokens or sampling.attempt_tokens "
            "lower"
        ]
    positions = getattr(shell.get_text_config(), "max_position_embeddings", None) or math.inf
    limits = {"proposal_tokens": sampling.proposal_tokens, "attempt_tokens": sampling.attempt_tokens}
    return [
        f"warning: sampling.{name}={tokens}, and this base was made for texts of {positions:,} tokens, prompts included"
        for name, tokens in limits.items()
        if tokens > positions
    ]


def start_of_another_base(init: str, base: str) -> str:
    """Returns a line that says that the adapter in `init` was made for another base; "" if it was not."""
    return "" if init in ("auto", "fresh") else other_base(Path(init), base)


def fit(config: Config, members: int, listener: Listener) -> Config:
    """Returns `config` as it fits in free memory with `members` adapters. The listener hears what was made smaller.

    Raises ModelError, before anything is loaded, if it cannot fit, or if the base cannot be found or is not supported.
    """
    quiet_libraries()
    announce_conversion(config.model, listener)
    # A replica of a cluster makes its batches fit by itself, into the memory of its own machine.
    if config.cluster.address:
        return config
    # What is quickly known comes first: a base that is not supported should cost no download.
    machine = this_machine(config.model)
    shell = read_config(config.model.name)
    check_quantized(config.model, shell.to_dict())
    lengths = prompt_lengths(config.play_settings, token_counter(config.model))
    for line in too_long(config.sampling, lengths, shell, hosted=machine.shape.hosted):
        listener.warning(line)
    fitted = memory.fit(config, machine, lengths, members)
    if fitted.changes:
        listener.note(f"memory: {fitted.free / 2**30:.1f} GiB is free, so this runs with {' '.join(fitted.changes)}")
    if fitted.warning:
        listener.warning(f"warning: {fitted.warning}")
    return fitted.config


def quiet_libraries() -> None:
    """Turns off progress bars and advice of the libraries: our own progress says what happens."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in ("torch", "huggingface_hub"):
        logging.getLogger(name).setLevel(logging.ERROR)


def announce_conversion(model: ModelConfig, listener: Listener) -> None:
    """Tells if the first use of the bundled model is about to convert it, which takes a while."""
    if model.name == BUNDLED and cached() is None:
        download = "" if installed() else "downloading (93 MB) and "
        listener.note(f"{download}converting the bundled model into {cache_root()}, once: about 15 seconds ...")


def _train(
    config: Config, fitted: Config, directory: RunDirectory, saved: checkpoint.Checkpoint | None, attached: Callbacks
) -> None:
    """Trains to the end. `saved` is the checkpoint to go on from; None starts a new run.

    `fitted` is what runs: `config`, made smaller as free memory asks for it. An error of the disk becomes a line that
    says how to go on.
    """
    # A resumed run has its tasks in the checkpoint, and need not have the file that they came from.
    game = config.game if saved is None else config.game.model_copy(update={"seeds": None})
    for line in warnings_about(config.sampling, game, config.population.init, config.model.name):
        attached.listener.warning(line)
    attached.listener.opening(fitted, directory)
    # A resumed run takes the same values if they fit: other ones round differently.
    taken = {key: attrgetter(key)(fitted) for key in FITTED}
    with (
        directory.stop_kept(),
        _writing(directory),
        open_players(fitted, attached.verifier, attached.listener.warning) as players,
    ):
        if saved is None:
            # Weights in another number format are other weights. On another processor auto may choose another one,
            # where the run could neither be resumed nor evaluated.
            config = config.override([f"model.dtype={players.base.dtype}"])
            made = environment(taken, fitted.run.metrics, players.base, attached.command, players.verifier.tier)
            directory.create(config, made)
        trainer = Trainer(fitted, players.policy, players.base, players.verifier, directory, spread=players.spread)
        with closing(trainer):
            if saved is None:
                _begin(trainer, attached.listener)
            else:
                trainer.restore(saved)
                attached.listener.note(f"resuming at step {trainer.played + 1} of {config.run.steps}")
                directory.set_config(config)
                directory.add_session(session(taken, attached.command, players.verifier.tier))
            attached.listener.training()
            opened = Session(directory=directory, config=config, first=trainer.played + 1, say=attached.listener.note)
            with _watched(opened, attached.recorders) as watchers:
                trainer.watchers = watchers
                trainer.run()


@contextmanager
def _writing(directory: RunDirectory) -> Generator[None]:
    """Turns an error of the disk or of the archive into a line that says how to go on."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if is_damage(error):
            raise damaged_archive(directory.archive, error) from error
        if not directory.path.exists():
            raise RunError(f"{directory.path} is gone: it was renamed or removed while the run trained") from error
        raise RunError(f"cannot write {directory.path}: {error}. Fix that. {how_to_resume(directory)}") from error


def _begin(trainer: Trainer, listener: Listener) -> None:
    """Makes the first population and fills the task bank."""
    if trainer.evaluation is not None:
        problems = sum(len(loaded.problems) for loaded in trainer.evaluation.loaded)
        # A run of the user's questions alone has no other held-out tasks than those that are chosen below.
        if problems:
            listener.note(f"the start is evaluated on {problems} held-out tasks before the first step")
    source = trainer.config.game.tasks
    what = "the seed programs" if source is None else f"the tasks of {source}"
    listener.note(f"checking {what} in the sandbox ({trainer.self_play.verifier.tier} isolation) ...")
    planted = trainer.begin(None if source is None else fixed_tasks(Path(source)), listener.progress)
    if planted.held_out:
        held_out = set(map(fingerprint_of, planted.held_out))
        noun = "questions" if all(find(kind).generated for kind in trainer.config.game.kinds) else "programs"
        tasks = f"{len(planted.held_out)} tasks"
        if trainer.evaluation is not None and len(trainer.evaluation.loaded[-1].problems) < len(planted.held_out):
            tasks = f"{len(trainer.evaluation.loaded[-1].problems)} of {tasks}, evals.limit"
        listener.note(
            f"{len(held_out)} of your {len(held_out) + planted.programs} {noun} are held out, similar ones together: "
            f"the start and students are tested on them ({tasks}), and nothing is trained on them (evals.own)"
        )
    if planted.left_out:
        listener.note(
            f"{planted.left_out} of them were left out: they are invalid or give other outputs here, are similar to "
            "held-out programs, are there twice, or of other kinds than game.kinds"
        )


@contextmanager
def _watched(opened: Session, attached: Sequence[Recorder]) -> Generator[tuple[Recorder, ...]]:
    """Opens the recorders and trackers that the configuration names, and closes all recorders in the end."""
    own = open_recorders(opened)
    # A library may ask for a login, so trackers are opened before the first event, which starts a live view.
    trackers = open_trackers(opened)
    watchers = (*attached, NowRecorder(opened.directory), *own, *trackers)
    with ExitStack() as stack:
        # The first is closed first: a live view must have ended before a tracker's library prints its last lines.
        for recorder in reversed(watchers):
            stack.callback(recorder.close)
        yield watchers
