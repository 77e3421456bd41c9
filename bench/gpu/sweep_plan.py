"""Chooses which workloads a sweep measures, in which groups and in which order. Pure
functions."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

# The workloads whose pairs are worth most come first; pairs with the last one are measured last.
ORDER = [
    "mnist-b64",
    "resnet50-b32",
    "resnet18-cifar-b32",
    "bert-base-amp-b32",
    "resnet18-cifar-b128",
    "gpt2-medium-bf16-b4",
    "lstm-b32",
    "mobilenet-b32",
    "resnet50-amp-b128",
    "bert-base-b32",
    "loader-b64",
    "vgg16-b32",
]
# Processes of each workload; one if the workload is not listed.
COPIES = {
    "mnist-b64": 7,
    "resnet18-cifar-b32": 4,
    "resnet50-b32": 2,
    "bert-base-amp-b32": 2,
    "lstm-b32": 3,
}
_M, _R50, _R18, _BA, _R18L, _GPT, _L, _MOB, _R50A, _B, _LOAD, _V = ORDER
LARGER = [
    [_M] * 2,
    [_R50] * 2,
    [_BA] * 2,
    [_R18] * 2,
    [_M, _R50, _BA],
    [_R18, _R50, _MOB],
    [_M] * 4,
    [_R18] * 4,
    [_L, _R50A, _GPT],
    [_M, _R18, _MOB, _R50],
    [_R18L, _MOB, _BA],
    [_M] * 7,
    [_R18, _L, _M, _LOAD],
    [_R18, _R50, _B],
    [_L] * 2,
    [_M, _R18L, _R50A],
    [_R18L, _R50, _BA, _R50A],
    [_M, _L, _R18, _LOAD, _MOB, _R50],
    [_MOB, _BA, _GPT],
    [_M, _L, _B, _GPT],
    [_R18] * 3,
    [_M, _M, _M, _R18, _R18, _L, _L],
    [_L] * 3,
    [_LOAD, _R18, _MOB],
]
# Workloads with a share of the SMs, in percent.
SHARES = [(_R50, 50), (_R50, 25), (_BA, 50), (_BA, 25), (_R18, 50), (_R18, 25)]
SMALL = _R18  # the workload for tests of limits and faults


def base_name(worker: str) -> str:
    """The workload of a copy such as 'mnist-b64#2', or of 'mnist-b64@50', which has a share of
    the SMs."""
    return worker.partition("#")[0].partition("@")[0]


def worker_names(order: Sequence[str] = ORDER) -> List[str]:
    """Each workload once, then the copies."""
    copies = [f"{name}#{number}" for name in order for number in range(2, COPIES.get(name, 1) + 1)]
    return [*order, *copies]


def rounds(names: Sequence[str]) -> List[List[List[str]]]:
    """All pairs of different names, in rounds in which each name appears at most once."""
    ring: List[str] = [*names, *([""] if len(names) % 2 else [])]
    found = []
    for _ in range(len(ring) - 1):
        pairs = [[ring[index], ring[-1 - index]] for index in range(len(ring) // 2)]
        found.append([pair for pair in pairs if "" not in pair])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def groups(
    order: Sequence[str] = ORDER, larger: Sequence[Sequence[str]] = tuple(LARGER)
) -> List[List[str]]:
    """Rounds of pairs with larger groups between them, then the pairs of the last workload.
    Wherever the sweep is cut off, each workload has been measured in about equally many groups."""
    core, last = order[:-1], order[-1]
    all_rounds = rounds(core)
    share = -(-len(larger) // max(1, len(all_rounds)))
    found: List[List[str]] = []
    for index, pairs in enumerate(all_rounds):
        found += pairs + [list(each) for each in larger[index * share : (index + 1) * share]]
    return found + [[name, last] for name in core]


def members(group: Sequence[str], workers: Sequence[Any]) -> List[Any]:
    """One worker for each name of the group; empty if there are too few."""
    free: Dict[str, List[Any]] = {}
    for worker in workers:
        free.setdefault(base_name(worker.name), []).append(worker)
    if any(list(group).count(name) > len(free.get(name, [])) for name in group):
        return []
    return [free[name].pop(0) for name in group]


def rate_of(ends: Sequence[float], begin: float, end: float) -> Dict[str, Any]:
    """Steps per second between the first and the last step that ended in a window. rate is None
    if fewer than two steps ended."""
    seen = [each for each in ends if begin <= each <= end]
    if len(seen) < 3:  # steps are about as long as the window: use all ends but the first
        seen = list(ends)[1:]
    if len(seen) < 2:
        return {"steps": len(seen), "rate": None}
    gaps = sorted(later - earlier for earlier, later in zip(seen, seen[1:]))
    return {
        "steps": len(seen),
        "rate": round((len(seen) - 1) / (seen[-1] - seen[0]), 5),
        "median_ms": round(1000 * gaps[len(gaps) // 2], 3),
        "p95_ms": round(1000 * gaps[min(len(gaps) - 1, int(0.95 * len(gaps)))], 3),
    }
