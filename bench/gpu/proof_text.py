"""What a proof found, as text: a table of the phases, one of the tasks, and the checks."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

OVERHEAD_GOAL = 0.005  # of a step's time


def shown(value: Optional[float], form: str = "{:.0f}", factor: float = 1) -> str:
    return "-" if value is None else form.format(value * factor)


def table(rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, all others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        + "\n"
        for row in rows
    )


def phase_table(phases: Dict[str, Any]) -> str:
    def of(phase: Dict[str, Any], *path: str) -> Optional[float]:
        value: Any = phase
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    lines = (
        ("makespan, s", ("report", "trace_total_s"), "{:.1f}", 1.0),
        ("waiting, mean, s", ("report", "waiting_s", "mean"), "{:.1f}", 1.0),
        ("execution, mean, s", ("report", "execution_s", "mean"), "{:.1f}", 1.0),
        ("JCT, mean, s", ("report", "jct_s", "mean"), "{:.1f}", 1.0),
        ("JCT, 95 %, s", ("report", "jct_s", "p95"), "{:.1f}", 1.0),
        ("SM activity, %: CARMA", ("report", "sm_active"), "{:.1f}", 100.0),
        ("  NVML, beside it", ("watch", "sm_active"), "{:.1f}", 100.0),
        ("  nvidia-smi dmon", ("dmon", "sm_active"), "{:.1f}", 100.0),
        ("SM occupancy, %: NVML", ("watch", "sm_occupancy"), "{:.1f}", 100.0),
        ("  nvidia-smi dmon", ("dmon", "sm_occupancy"), "{:.1f}", 100.0),
        ("memory in use, mean, MiB", ("report", "memory_used_mib"), "{:.0f}", 1.0),
        ("energy, kJ", ("report", "energy_mj"), "{:.2f}", 1000.0),
        ("OOM crashes", ("report", "oom_crashes"), "{:.0f}", 1.0),
        ("carmad, % of a core", ("carmad", "cpu_share"), "{:.2f}", 100.0),
        ("carmad, memory, MiB", ("carmad", "peak_rss_mib"), "{:.1f}", 1.0),
    )
    rows = [["", *phases]]
    for label, path, form, factor in lines:
        rows.append([label, *(shown(of(phase, *path), form, factor) for phase in phases.values())])
    return table(rows)


def measured_mib(about: Dict[str, Any]) -> Tuple[Optional[float], str]:
    """The task's peak, and who says so: the driver for its processes; else the GPU's use above what
    it was before."""
    if about.get("peak_mib"):  # 0: the driver does not tell of processes, as in many containers
        return about["peak_mib"], "process"
    if about.get("device_mib"):
        return about["device_mib"], "device"
    return None, "-"


def task_table(phases: Dict[str, Any]) -> str:
    rows = [
        [
            "task",
            "class",
            "predicted",
            "promised",
            "measured",
            "by",
            "predicted/measured",
            "PyTorch",
            "steps",
            *(f"JCT {method}" for method in phases),
        ]
    ]
    first = next(iter(phases.values()))
    for index, about in enumerate(first["tasks"]):
        measured, source = measured_mib(about)
        predicted = about.get("predicted_mib")
        ratio = predicted / measured if predicted and measured else None
        rows.append(
            [
                about["name"],
                about["weight"],
                shown(predicted),
                shown(about.get("bound_mib")),
                shown(measured),
                source,
                shown(ratio, "{:.2f}"),
                shown(about.get("reserved_mib")),
                shown(about.get("steps")),
                *(shown(phase["tasks"][index].get("jct_s"), "{:.1f}") for phase in phases.values()),
            ]
        )
    return table(rows)


def verdict(cost: Dict[str, float]) -> str:
    """With two standard errors: one measurement in twenty would say the opposite by chance."""
    if cost["share"] + 2 * cost["standard_error"] <= OVERHEAD_GOAL:
        return "holds"
    if cost["share"] - 2 * cost["standard_error"] > OVERHEAD_GOAL:
        return "does not hold"
    return "too noisy to tell"


def check_lines(result: Dict[str, Any]) -> List[str]:
    lines = []
    cost = result.get("overhead")
    if cost:
        lines.append(
            f"monitoring, step time of {cost['network']} ({cost['device']}): "
            f"{100 * cost['share']:+.2f} % ± {100 * cost['standard_error']:.2f} (standard error, "
            f"{cost['pairs']} pairs); wanted at most {100 * OVERHEAD_GOAL:.1f} %: {verdict(cost)}"
        )
    for method, phase in result["phases"].items():
        memory = phase.get("process_memory")
        if memory:
            lines.append(
                f"{method}: process memory against nvidia-smi, {memory['looks']} looks: largest "
                f"difference {memory['largest_gap_mib']} MiB, of at most "
                f"{memory['largest_sum_mib']} MiB"
            )
        if "mps_servers" in phase:
            seen = phase["mps_servers"]
            lines.append(
                f"{method}: MPS servers seen at once: {seen}"
                + ("" if seen else ": the tasks ran without MPS")
            )
        ended = sum(about["state"] == "succeeded" for about in phase["tasks"])
        if ended < len(phase["tasks"]) or phase["cut_short"]:
            late = ", cut short by the time limit" if phase["cut_short"] else ""
            lines.append(f"{method}: {ended} of {len(phase['tasks'])} tasks succeeded{late}")
    lines += [f"left out: {what}: {why}" for what, why in result["left_out"].items()]
    return lines


def text_of(result: Dict[str, Any]) -> str:
    where = ", ".join(result["host"]["gpus"])
    head = (
        f"{result['carma']} on {where}: {result['tasks']} tasks, {result['seconds']:.0f} s in all\n"
    )
    if result["simulated"]:
        head += "SIMULATED: GPUs, tasks and seconds. It shows that the proof runs, "
        head += "and nothing about hardware.\n"
    body = ""
    if result["phases"]:
        body = (
            "\n"
            + phase_table(result["phases"])
            + "\nMemory per GPU in MiB, JCT in s:\n"
            + task_table(result["phases"])
        )
    checks = check_lines(result)
    return head + body + ("\n" + "\n".join(checks) + "\n" if checks else "")
