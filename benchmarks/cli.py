"""`python -m benchmarks WHAT`: one command for each measurement.

A command imports what it measures when it runs, so that `--help` loads no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from redqueen.config import BUNDLED

app = typer.Typer(
    help="Measure this machine and compare with other libraries in the same run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds; all contenders take turns in each, and the median counts.")]


@app.command()
def sandbox(
    as_json: AsJson = False,
    rounds: Rounds = 7,
    programs: Annotated[int, typer.Option(min=8, help="Programs in a round.")] = 100,
    cpu_s: Annotated[float, typer.Option("--limit", min=0.01, help="CPU seconds that one program may take.")] = 1.0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Programs run at once (default: one for each core).")] = None,
    unsafe_no_isolation: Annotated[
        bool, typer.Option(help="Run programs although this machine cannot isolate them.")
    ] = False,
) -> None:
    """Programs a second, latency, and what programs that never end cost the others."""
    from benchmarks.sandbox import run_bench_sandbox

    raise typer.Exit(run_bench_sandbox(programs, rounds, jobs, cpu_s, as_json=as_json, unsafe=unsafe_no_isolation))


@app.command()
def service(
    as_json: AsJson = False,
    rounds: Rounds = 5,
    clients: Annotated[int, typer.Option(min=1, help="Clients at a time.")] = 64,
    each: Annotated[int, typer.Option(min=1, help="Programs of each client in a round.")] = 16,
) -> None:
    """Requests a second of `redqueen jail serve` under many clients with hostile programs, and whose answers come."""
    from benchmarks.service import run_bench_service

    raise typer.Exit(run_bench_service(clients, each, rounds, as_json=as_json))


Threads = Annotated[int, typer.Option(min=1, help="Threads of each contender.")]
Members = Annotated[int, typer.Option(min=2, help="Members of the population.")]
Completions = Annotated[int, typer.Option(min=2, help="Completions in a step.")]
Attempts = Annotated[int, typer.Option(min=2, help="Completions of each prompt.")]
PromptTokens = Annotated[int, typer.Option(min=4, help="Tokens of each prompt.")]
NewTokens = Annotated[int, typer.Option(min=2, help="Tokens of each completion.")]
Model = Annotated[str, typer.Option(help="Hugging Face id or local folder (adapters of rank 16).")]


def _numbers(text: str, least: int) -> list[int]:
    """Returns the numbers of a comma-separated list. Raises BadParameter if one is no whole number or below `least`."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < least:
        raise typer.BadParameter(f"'{text}' is not a list like {least},{2 * least}: whole numbers from {least} on")
    return numbers


def _check_step(completions: int, attempts: int, members: int) -> None:
    """Raises BadParameter if prompts would have unequal numbers of attempts, or a member fewer than two completions."""
    if completions % attempts or completions < 2 * members:
        raise typer.BadParameter("--completions must be a multiple of --attempts, and at least two for each member")


@app.command()
def train(
    as_json: AsJson = False,
    rounds: Rounds = 5,
    tokens: Annotated[str, typer.Option(help="Tokens of a joint update, with commas.")] = "2048,512",
    members: Members = 8,
    attempts: Annotated[int, typer.Option(min=2, help="Attempts at one prompt.")] = 8,
    model: Model = BUNDLED,
    threads: Threads = 1,
) -> None:
    """A joint update of all members, against one PEFT adapter over the same tokens, and shared prompts."""
    from benchmarks.system import BenchmarkConfig
    from benchmarks.train import run_bench_train

    sizes = _numbers(tokens, 2 * members)
    raise typer.Exit(
        run_bench_train(BenchmarkConfig(model, threads), members, sizes, attempts, rounds, as_json=as_json)
    )


@app.command()
def sampler(
    as_json: AsJson = False,
    rounds: Rounds = 3,
    rows: Annotated[str, typer.Option(help="Rows decoded together, with commas.")] = "1,8,32,128",
    members: Members = 8,
    prompt: Annotated[int, typer.Option(min=4, help="Tokens of each row's prompt.")] = 52,
    new: Annotated[int, typer.Option(min=2, help="Tokens that each row writes.")] = 64,
    model: Model = BUNDLED,
    threads: Threads = 1,
) -> None:
    """Tokens per CPU-second, against transformers' generate, PEFT, populora and llama.cpp."""
    from benchmarks.sampler import Lengths, run_bench_sampler
    from benchmarks.system import BenchmarkConfig

    counts = _numbers(rows, 1)
    lengths = Lengths(prompt, new)
    raise typer.Exit(
        run_bench_sampler(BenchmarkConfig(model, threads), members, counts, lengths, rounds, as_json=as_json)
    )


@app.command()
def step(
    as_json: AsJson = False,
    rounds: Rounds = 5,
    completions: Completions = 32,
    attempts: Attempts = 8,
    members: Members = 8,
    prompt: PromptTokens = 52,
    new: NewTokens = 64,
    model: Model = BUNDLED,
    threads: Threads = 1,
) -> None:
    """A whole step, sampling and training, against TRL's GRPOTrainer with one PEFT adapter."""
    _check_step(completions, attempts, members)
    from benchmarks.step import Work, run_bench_step
    from benchmarks.system import BenchmarkConfig

    work = Work(completions, attempts, prompt, new)
    raise typer.Exit(run_bench_step(BenchmarkConfig(model, threads), members, work, rounds, as_json=as_json))


@app.command()
def workers(
    as_json: AsJson = False,
    rounds: Rounds = 3,
    count: Annotated[int, typer.Option("--workers", min=2, help="Processes, against one.")] = 2,
    completions: Completions = 64,
    attempts: Attempts = 8,
    rows: Annotated[int, typer.Option(min=1, help="Rows that each process decodes at once.")] = 32,
    members: Members = 8,
    prompt: PromptTokens = 52,
    new: NewTokens = 64,
    model: Model = BUNDLED,
    threads: Threads = 1,
) -> None:
    """Sampling and whole steps in several processes, against one: throughput by wall time."""
    _check_step(completions, attempts, members)
    from benchmarks.step import Work
    from benchmarks.system import BenchmarkConfig
    from benchmarks.workers import run_bench_workers

    work = Work(completions, attempts, prompt, new)
    raise typer.Exit(
        run_bench_workers(BenchmarkConfig(model, threads), members, count, rows, work, rounds, as_json=as_json)
    )


@app.command()
def hosted(
    as_json: AsJson = False,
    rounds: Rounds = 5,
    members: Members = 4,
    completions: Completions = 16,
    attempts: Attempts = 4,
    prompt: PromptTokens = 96,
    new: NewTokens = 32,
    model: Model = BUNDLED,
    threads: Threads = 1,
) -> None:
    """Our own forward pass against transformers' modules, hosted, on a base that both compute."""
    from benchmarks.hosted import Shape, run_bench_hosted
    from benchmarks.system import BenchmarkConfig

    _check_step(completions, attempts, members)
    shape = Shape(completions, attempts, prompt, new)
    raise typer.Exit(run_bench_hosted(BenchmarkConfig(model, threads), members, shape, rounds, as_json=as_json))


@app.command()
def logprobs(
    as_json: AsJson = False,
    rounds: Rounds = 5,
    rows: Annotated[int, typer.Option(min=1, help="Tokens whose log-probabilities are wanted.")] = 2048,
    model: Model = BUNDLED,
    threads: Threads = 1,
) -> None:
    """Log-probabilities and their gradient, against the full table and torch's own fused loss."""
    from benchmarks.logprobs import run_bench_logprobs
    from benchmarks.system import BenchmarkConfig

    raise typer.Exit(run_bench_logprobs(BenchmarkConfig(model, threads), rows, rounds, as_json=as_json))


@app.command()
def memory(
    as_json: AsJson = False,
    rounds: Rounds = 5,
    tokens: Annotated[int, typer.Option(min=64, help="Tokens of a training step.")] = 2048,
    members: Members = 8,
    model: Model = BUNDLED,
    threads: Threads = 1,
) -> None:
    """Peak memory of a training step with many members and with one."""
    if tokens < 4 * members:
        raise typer.BadParameter("--tokens must be at least four for each member")
    from benchmarks.memory import run_bench_memory
    from benchmarks.system import BenchmarkConfig

    raise typer.Exit(run_bench_memory(BenchmarkConfig(model, threads), members, tokens, rounds, as_json=as_json))


@app.command()
def population(
    as_json: AsJson = False,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each side that count.")] = 5,
    model: Model = BUNDLED,
    threads: Threads = 1,
    workers: Annotated[int, typer.Option(min=1, help="Processes of each run.")] = 2,
) -> None:
    """A whole step of 4 teachers and 4 students, against a single agent's with as many tasks."""
    from benchmarks.population import run_bench_population
    from benchmarks.system import BenchmarkConfig

    config = BenchmarkConfig(model, threads, workers=workers)
    raise typer.Exit(run_bench_population(config, steps, as_json=as_json))


@app.command()
def operators(
    as_json: AsJson = False,
    rounds: Rounds = 5,
    layers: Annotated[int, typer.Option(min=1, help="Layers of the 7B shape; 28 is the whole model.")] = 28,
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapters.")] = 32,
    threads: Threads = 2,
) -> None:
    """Seconds for a child, operator by operator, against populora's."""
    from benchmarks.operators import run_bench_operators

    raise typer.Exit(run_bench_operators(layers, rank, threads, rounds, as_json=as_json))


@app.command()
def league(
    as_json: AsJson = False,
    repetitions: Annotated[int, typer.Option(min=1, help="Simulated runs of each rule and offset.")] = 40,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a run.")] = 200,
) -> None:
    """Rules of games and selection in a simulation: what they cull, what they select and who wins."""
    from benchmarks.league import run_bench_league

    raise typer.Exit(run_bench_league(repetitions, steps, as_json=as_json))


@app.command()
def watch(
    as_json: AsJson = False,
    rounds: Rounds = 5,
    steps: Annotated[int, typer.Option(min=2, help="Steps of the run.")] = 200,
    matches: Annotated[int, typer.Option(min=2, help="Matches of a step, teachers, and students.")] = 8,
    tasks: Annotated[int, typer.Option(min=1, help="Valid tasks of a match.")] = 96,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts at a task.")] = 8,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the run there and keep it; one that is there is measured.")
    ] = None,
) -> None:
    """Every view of the live page on a run that was drawn: 1.2 million attempts by default, 0.9 GB of disk."""
    from benchmarks.synthetic_run import Size
    from benchmarks.watch import run_bench_watch

    size = Size(steps=steps, matches=matches, tasks=tasks, attempts=attempts)
    raise typer.Exit(run_bench_watch(size, rounds, folder, as_json=as_json))


@app.command()
def evaluation(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET...", help="What `redqueen eval` takes, e.g. a run.")],
    as_json: AsJson = False,
    rounds: Rounds = 3,
    dtype: Annotated[str, typer.Option(help="The base's number format: float32 or bfloat16.")] = "float32",
    limit: Annotated[int, typer.Option(min=1, help="Tasks of the reserved set.")] = 30,
    rows: Annotated[int, typer.Option(min=1, help="Rows decoded together.")] = 32,
    threads: Threads = 1,
) -> None:
    """Members evaluated in mixed batches, against one after another: times, and whether the answers are the same."""
    from benchmarks.evaluation import run_bench_evaluation

    raise typer.Exit(run_bench_evaluation(targets, dtype, limit, rows, threads, rounds, as_json=as_json))


@app.command()
def large_league(
    as_json: AsJson = False,
    members: Annotated[int, typer.Option(min=2, help="Teachers, and as many students.")] = 1000,
    proposals: Annotated[int, typer.Option(min=1, help="Proposals of each kind in a match.")] = 16,
    steps: Annotated[int, typer.Option(min=1, help="Steps.")] = 3,
    profile: Annotated[bool, typer.Option(help="Print where the time goes; it is slower then.")] = False,
) -> None:
    """A step of a league of thousands: the seconds of everything that is neither sampling nor training."""
    from benchmarks.large_league import run_bench_large_league

    raise typer.Exit(run_bench_large_league(members, proposals, steps, profile, as_json=as_json))


@app.command()
def gpu(
    parts: Annotated[
        list[str],
        typer.Argument(
            metavar="PART...",
            help="smoke, correct, run, 7b, sampler, tests, cpu; day (all parts, or those named after it, each in a "
            "process of its own).",
        ),
    ],
    tiny: Annotated[bool, typer.Option("--tiny", help="Toy sizes on a CPU: tries the code, measures nothing.")] = False,
    within: Annotated[float, typer.Option(help="The seconds of a whole day.")] = 600,
) -> None:
    """Ten minutes on a GPU: kernels, correctness, a real run, a 7B model's steps, the sampler (docs/GPU.md)."""
    from benchmarks.gpu.day import DAY, PARTS, run_bench_gpu
    from benchmarks.timing import BenchmarkError

    for part in parts:
        if part not in (*PARTS, DAY):
            raise typer.BadParameter(f"'{part}' is not a part: choose from {', '.join((*PARTS, DAY))}")
    try:
        run_bench_gpu(parts, tiny=tiny, within=within)
    except BenchmarkError as why:
        typer.echo(f"gpu: {why}", err=True)
        raise typer.Exit(1) from why
