"""Small adapters, and the dense update that the operators never build."""

import pytest
import torch

from redqueen.adapters.factors import Adapter, Factors

SITES = tuple(f"model.layers.{i}.{module}" for i in range(6) for module in ("self_attn.q_proj", "mlp.up_proj"))


class Make:
    """Makes adapters and generators; a fixture, because test files do not import from each other."""

    sites = SITES

    def adapter(self, seed: int, n_in=8, n_out=6, rank=3, dtype=torch.float32, sites=SITES) -> Adapter:
        g = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=g).to(dtype)

        return {site: Factors(draw(n_in, rank), draw(rank, n_out)) for site in sites}

    def zero(self, seed: int, **form) -> Adapter:
        return {s: Factors(f.a, torch.zeros_like(f.b)) for s, f in self.adapter(seed, **form).items()}

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    def dense(self, factors: Factors) -> torch.Tensor:
        return factors.a.double() @ factors.b.double()

    def truncated(self, dense: torch.Tensor, rank: int) -> torch.Tensor:
        u, s, vt = torch.linalg.svd(dense, full_matrices=False)
        return (u[:, :rank] * s[:rank]) @ vt[:rank]

    def same(self, one: Adapter, other: Adapter) -> bool:
        """Bit for bit."""
        return one.keys() == other.keys() and all(
            torch.equal(one[s].a, other[s].a) and torch.equal(one[s].b, other[s].b) for s in one
        )


@pytest.fixture(scope="session")
def make() -> Make:
    return Make()
