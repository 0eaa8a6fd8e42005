"""`python -m benchmarks operators`: seconds for a child, each operator compared with `populora`'s of the same purpose.

Shapes are those of a 7B model (Qwen2.5-Coder-7B: hidden 3584, intermediate 18944, all seven modules of a layer).
Both sides hold the same two parents in fp32 and use as many threads. Our operators read the parents and return new
tensors. populora writes into a third individual that it holds already; a mutation first copies the parent there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.peers import Missing, optional
from benchmarks.report import Report, against, finish, log
from benchmarks.timing import Contender, Stopwatch, Timing, take_turns
from redqueen.engine.adapters import Adapter, Factors
from redqueen.method.operators import CONTROLS, CROSSOVERS, MUTATIONS
from redqueen.method.operators.modules import Operator

HIDDEN = 3584
INTERMEDIATE = 18944
KEY_VALUE = 512
SHAPES = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (HIDDEN, KEY_VALUE),
    "self_attn.v_proj": (HIDDEN, KEY_VALUE),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (HIDDEN, INTERMEDIATE),
    "mlp.up_proj": (HIDDEN, INTERMEDIATE),
    "mlp.down_proj": (INTERMEDIATE, HIDDEN),
}
# No B is zero, as it is in a new adapter: an operator would then have nothing to mix, and a product with zero tells
# nothing about its speed.
B_STD = 0.02
COLUMNS = (
    ("ratio", "x as fast"),
    ("operator", "operator"),
    ("seconds", "seconds"),
    ("cpu_seconds", "CPU s"),
    ("peer", "of populora"),
    ("peer_seconds", "seconds"),
    ("peer_cpu_seconds", "CPU s"),
    ("child", "its child"),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """populora's operator of the same purpose."""

    name: str
    same: bool = True
    """Whether it computes the same kind of child. If not, it mixes or masks A and B separately, which is less work and
    has cross terms; ours works on ΔW (docs/reference/OPERATORS.md)."""


PEERS = {
    "svd_spectral": Peer("svd_structured"),
    "layer_gaussian": Peer("layer_selective_gaussian"),
    "component_mask": Peer("component_masking"),
    "full_gaussian": Peer("full_gaussian"),
    "neftune": Peer("neftune_style"),
    "dare": Peer("dare", same=False),
    "slot_swap": Peer("layer_wise"),
    "svd_subspace": Peer("svd_subspace"),
    "extrapolate": Peer("extrapolative", same=False),
    "copy_parent": Peer("clone"),
    "linear_mean": Peer("average", same=False),
}
NOTES = (
    "seconds: wall time of one child, median of the rounds; x as fast: populora's seconds over ours.",
    "its child: 'same' means the same operation; 'A, B apart' is a namesake that never forms ΔW "
    "(docs/reference/OPERATORS.md).",
)


def run_bench_operators(layers: int, rank: int, threads: int, rounds: int, *, as_json: bool) -> int:
    """Measures and prints the report; returns the exit code."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        report = measure(layers, rank, threads, rounds)
    finally:
        torch.set_num_threads(before)
    return finish(report, COLUMNS, as_json, NOTES)


def measure(layers: int, rank: int, threads: int, rounds: int) -> Report:
    """Returns the report: a row for each operator; `ratio` is populora's seconds over ours, median over the rounds."""
    parents = [parent(layers, rank, seed) for seed in (1, 2)]
    count = sum(f.a.numel() + f.b.numel() for f in parents[0].values())
    settings = {"layers": layers, "rank": rank, "parameters": count, "threads": threads, "rounds": rounds}
    report = Report("operators", settings)
    try:
        theirs = Population(parents)
    except Missing as why:
        theirs = None
        report.unavailable("populora", why)
    for name, operator in (MUTATIONS | CROSSOVERS | CONTROLS).items():
        # Operators are measured one after the other: a ratio compares an operator with its namesake, never two of ours.
        two = name in CROSSOVERS or name == "linear_mean"
        ours = Contender(name, _ours(operator, parents if two else parents[:1]))
        peer = PEERS.get(name)
        other = Contender(peer.name, theirs.turn(peer.name)) if theirs and peer else None
        take_turns([ours, other] if other else [ours], rounds, log, name)
        report.results.append(_row(ours, other, peer))
        if other and peer:
            report.ratio(f"{name} against {peer.name}", against(other, ours, _wall), "above 1" if peer.same else "")
    return report


def parent(layers: int, rank: int, seed: int) -> Adapter:
    """Returns an adapter of the 7B shape as after some training: A as PEFT draws it, B Gaussian."""
    noise = torch.Generator().manual_seed(seed)
    adapter: Adapter = {}
    for layer, (module, (n_in, n_out)) in product(range(layers), SHAPES.items()):
        a = torch.empty(n_in, rank).uniform_(-(n_in**-0.5), n_in**-0.5, generator=noise)
        b = B_STD * torch.randn(rank, n_out, generator=noise)
        adapter[f"model.layers.{layer}.{module}"] = Factors(a, b)
    return adapter


class Population:
    """populora's population: the two parents and room for a child. Raises Missing if populora is not installed."""

    def __init__(self, parents: list[Adapter]) -> None:
        library = optional("populora")
        rank = next(iter(parents[0].values())).a.shape[1]
        self.population: Any = library.Population(_base(parents[0]), pop_size=3, low_rank=rank)
        self.mutations = frozenset(library.MUTATION_REGISTRY)
        # its dictionaries have the sites in the order of the base's layers, which is the adapter's
        down = self.population.weight_down
        up = self.population.weight_up
        with torch.no_grad():
            for number, adapter in enumerate(parents):
                for key, factors in zip(down, adapter.values(), strict=True):
                    down[key][number].copy_(factors.a)
                    up[key][number].copy_(factors.b.T)

    def turn(self, name: str) -> Callable[[], Timing]:
        """Returns a turn that makes the third individual from the first, the fitter one, or from the first two."""
        child = torch.tensor([2])
        fitness = torch.tensor([1.0, 0.0, 0.0])
        alone = torch.tensor([[0]])
        both = torch.tensor([[0, 1]])

        def run() -> Timing:
            with Stopwatch() as watch:
                # A mutation changes an individual in place. Ours leaves the parent as it is, so the copy is part of the
                # work.
                if name in self.mutations:
                    self.population.crossover_("clone", alone, child)
                    self.population.mutate_(name, individuals=child)
                else:
                    self.population.crossover_(name, alone if name == "clone" else both, child, fitnesses=fitness)
            return Timing(watch.cpu_s, watch.wall_s)

        return run


def _base(adapter: Adapter) -> nn.Module:
    """Returns linear layers of the adapter's shapes whose weights take no memory.

    populora reads only the shapes of its base. A real base of 7B parameters would take 15 GB in bf16.
    """
    layers = nn.ModuleList()
    for factors in adapter.values():
        linear = nn.Linear(1, 1, bias=False)
        linear.in_features = factors.a.shape[0]
        linear.out_features = factors.b.shape[1]
        # one number, seen as a whole matrix
        empty: Tensor = torch.zeros(()).expand(linear.out_features, linear.in_features)
        linear.weight = nn.Parameter(empty, requires_grad=False)
        layers.append(linear)
    return layers


def _ours(operator: Operator, parents: list[Adapter]) -> Callable[[], Timing]:
    """Returns a turn that makes a child; to free it is not part of the time."""
    generator = torch.Generator().manual_seed(0)

    def run() -> Timing:
        with Stopwatch() as watch:
            child = operator(parents, generator)
        del child
        return Timing(watch.cpu_s, watch.wall_s)

    return run


def _wall(timing: Timing) -> float:
    return timing.wall_s


def _row(ours: Contender, other: Contender | None, peer: Peer | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "case": "a child of the 7B shape",
        "ratio": round(against(other, ours, _wall), 3) if other else None,
        "operator": ours.name,
        **_seconds("", ours),
    }
    if other and peer:
        row |= {"peer": peer.name, "child": "same" if peer.same else "A, B apart", **_seconds("peer_", other)}
    return row


def _seconds(prefix: str, contender: Contender) -> dict[str, Any]:
    return {
        f"{prefix}seconds": round(median(t.wall_s for t in contender.turns), 4),
        f"{prefix}cpu_seconds": round(median(t.cpu_s for t in contender.turns), 4),
        f"{prefix}seconds_rounds": [round(t.wall_s, 4) for t in contender.turns],
    }
