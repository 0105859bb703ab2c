"""A network as text, from the input down."""

from __future__ import annotations

from tikhonet.network.graph import BIAS, Network, Weights


def draw_text(network: Network, W: Weights, outputs: int) -> str:
    """Layers with their widths, and between them what feeds each: learned matrices with their zeros, identities."""
    lines = [f"x   {network.widths[0]} inputs"]
    for n in network.hidden:
        for m in (m for m in reversed(network.sources(n)) if m != BIAS):
            lines.append(f"|     {'x' if m == 0 else f'u{m}'} -> {edge_text(network, W, n, m)}")
        bias = " + bias" if BIAS in network.sources(n) else ""
        lines.append(f"u{n}  {network.widths[n]} = {network.activation.formula(f'sum{bias}')}")
    lines += ["|     the head, a linear map", f"y   {outputs} outputs"]
    return "\n".join(lines)


def edge_text(network: Network, W: Weights, n: int, m: int) -> str:
    if not network.edges[n, m].learned:
        return f"{network.edges[n, m].name} ({network.widths[n]})"
    rows, columns = network.shape((n, m))
    nonzero = 100 * float((W[n, m] != 0).double().mean())
    return f"W[{n},{m}] {rows} x {columns}, {nonzero:.1f}% nonzero"
