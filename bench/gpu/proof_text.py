"""Formats the results of a proof: a table of the phases, a table of the tasks, and the checks."""

from __future__ import annotations

import collections
import statistics
from typing import Any, Dict, List, Optional, Sequence, Tuple

OVERHEAD_GOAL = 0.005  # share of a step's time


def shown(value: Optional[float], form: str = "{:.0f}", factor: float = 1) -> str:
    return "-" if value is None else form.format(value * factor)


def counted(count: int, thing: str) -> str:
    return f"{count} {thing}" + ("" if count == 1 else "s")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Formats a table whose first column is aligned to the left and all others to the right."""
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
        ("  NVML, beside it", ("watch", "used_mib"), "{:.0f}", 1.0),
        ("energy, kJ", ("report", "energy_mj"), "{:.2f}", 1000.0),
        ("  NVML, beside it", ("watch", "energy_j"), "{:.2f}", 0.001),
        ("OOM crashes", ("report", "oom_crashes"), "{:.0f}", 1.0),
        ("carmad, % of a core", ("carmad", "cpu_share"), "{:.2f}", 100.0),
        ("carmad, memory, MiB", ("carmad", "peak_rss_mib"), "{:.1f}", 1.0),
    )
    rows = [["", *phases]]
    for label, path, form, factor in lines:
        rows.append([label, *(shown(of(phase, *path), form, factor) for phase in phases.values())])
    return table(rows)


def measured_mib(about: Dict[str, Any]) -> Tuple[Optional[float], str]:
    """The task's peak and its source: the driver's figure for its processes, or else the GPU's
    use above the initial use."""
    if about.get("peak_mib"):  # 0: the driver reports no processes, as in many containers
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
    """Uses two standard errors, so one measurement in twenty would give the opposite verdict by
    chance."""
    if cost["share"] + 2 * cost["standard_error"] <= OVERHEAD_GOAL:
        return "holds"
    if cost["share"] - 2 * cost["standard_error"] > OVERHEAD_GOAL:
        return "does not hold"
    return "too noisy to tell"


def overhead_line(cost: Dict[str, Any]) -> str:
    return (
        f"monitoring, step time of {cost['network']} ({cost['device']}): "
        f"{100 * cost['share']:+.2f} % ± {100 * cost['standard_error']:.2f} (standard error, "
        f"{cost['pairs']} pairs from {100 * cost['lowest']:+.2f} to {100 * cost['highest']:+.2f} "
        f"%); goal: at most {100 * OVERHEAD_GOAL:.1f} %: {verdict(cost)}"
    )


def pair_lines(found: Dict[str, Any]) -> List[str]:
    """The results of `carma profile` for the models, alone and in pairs."""
    lines = []
    for kind in found["types"]:
        for each in kind["profiles"]:
            lines.append(
                f"{each['workload']} on {kind['gpu_type']}: SM activity "
                f"{shown(each.get('sm_active'), '{:.2f}')}, sensitivity "
                f"{shown(each.get('sensitivity'), '{:.2f}')}, pressure "
                f"{shown(each.get('pressure'), '{:.2f}')}, step "
                f"{shown(each.get('iteration_s'), '{:.1f} ms', 1000)}"
            )
        errors = [
            f"{name} {100 * kind[key]:.1f} %"
            for name, key in (("MPS", "mps_error"), ("streams", "streams_error"))
            if key in kind
        ]
        if errors:
            lines.append(f"mean error of predicted slowdowns: {', '.join(errors)}")
    return lines + [f"failed: {each['what']}: {each['why']}" for each in found["failed"]]


def memory_line(memory: Dict[str, Any]) -> str:
    if memory["largest_smi_mib"] and not memory["largest_sum_mib"]:
        return (
            "the driver reports processes, but none of CARMA's, so no per-task memory is known (in a "
            "container, the driver reports host PIDs)"
        )
    return (
        f"process memory against nvidia-smi, {memory['looks']} looks: largest difference "
        f"{memory['largest_gap_mib']} MiB, of at most {memory['largest_sum_mib']} MiB"
    )


def promise_line(tasks: Sequence[Dict[str, Any]]) -> Optional[str]:
    """The accuracy of the predictions over the tasks of a phase."""
    known = [
        (about["predicted_mib"], about["bound_mib"], measured_mib(about)[0])
        for about in tasks
        if about.get("predicted_mib") and about.get("bound_mib") and measured_mib(about)[0]
    ]
    if not known:
        return None
    ratios = [predicted / measured for predicted, _, measured in known]
    within = sum(measured <= bound for _, bound, measured in known)
    return (
        f"predicted / measured memory: median {statistics.median(ratios):.2f}, from "
        f"{min(ratios):.2f} to {max(ratios):.2f}; {within} of {len(known)} tasks needed no more "
        "than promised"
    )


def mps_lines(phase: Dict[str, Any]) -> List[str]:
    mps, tasks = phase["mps"], phase["tasks"]
    started = sum(about.get("sharing") == "mps" for about in tasks)
    nvml = shown(phase.get("watch", {}).get("most_mps_clients"))
    line = (
        f"{started} of {len(tasks)} tasks were started under MPS, {mps['tasks_seen']} were seen as "
        f"clients of a server; most at once: {counted(mps['servers'], 'server')}, "
        f"{counted(mps['clients'], 'client')} (NVML: {nvml})"
    )
    if mps["tasks_seen"] < started:
        line += "; the others ended between two checks, or silently ran without MPS"
    if mps["left_behind"]:
        return [line, f"{counted(mps['left_behind'], 'control daemon')} outlived carmad and were stopped"]
    return [line]


def look_lines(looks: Dict[str, Any]) -> List[str]:
    """The output of `carma gpus` while tasks ran."""
    lines = [f"closed: {text}" for text in looks["closed"]]
    lines += [f"alert: {text}" for text in looks["alerts"]]
    lines += [f"not CARMA's: {text}" for text in looks["foreign"]]
    if looks["unattributed_mib"] is not None:
        lines.append(f"memory that no process explains: at most {looks['unattributed_mib']} MiB")
    gaps = looks["share_gaps"]
    if gaps:
        lines.append(
            f"tasks' parts of SM activity against nvidia-smi pmon, {gaps['compared']} pairs: mean "
            f"difference {100 * gaps['mean']:.1f} points, largest {100 * gaps['largest']:.1f}"
        )
    return lines


def source_lines(phases: Dict[str, Any]) -> List[str]:
    """The source of each metric that CARMA reports."""
    sources: Dict[str, str] = {}
    for phase in phases.values():
        sources.update(phase["looks"]["sources"])
    return [
        f"reported by {source}: {', '.join(name for name in sources if sources[name] == source)}"
        for source in sorted(set(sources.values()))
    ]


def task_lines(phase: Dict[str, Any]) -> List[str]:
    """Notable events of the tasks."""
    tasks = phase["tasks"]
    lines = []
    ended = sum(about["state"] == "succeeded" for about in tasks)
    if ended < len(tasks) or phase["cut_short"]:
        late = ", cut short by the time limit" if phase["cut_short"] else ""
        lines.append(f"{ended} of {len(tasks)} tasks succeeded{late}")
    for about in tasks:
        if about["ooms"]:
            lines.append(
                f"{about['name']} ran out of memory {counted(about['ooms'], 'time')}, then {about['state']}"
            )
        elif about["state"] == "failed":
            lines.append(f"{about['name']} failed: {about['exit_detail'] or 'no output'}")
    notes = collections.Counter(about["sharing_note"] for about in tasks if about["sharing_note"])
    lines += [f"{counted(count, 'task')}: {note}" for note, count in notes.items()]
    told, wrong = (sum(about[key] for about in tasks) for key in ("idle_told", "idle_false"))
    if told:
        lines.append(
            f"reported as idle holders: {told} times, {wrong} of them while training"
            + (": FALSE ALARMS" if wrong else " (the others while loading)")
        )
    return lines


def phase_lines(phase: Dict[str, Any]) -> List[str]:
    memory = phase.get("process_memory")
    lines = [memory_line(memory)] if memory else []
    promise = promise_line(phase["tasks"])
    lines += [promise] if promise else []
    lines += mps_lines(phase) if "mps" in phase else []
    return lines + look_lines(phase["looks"]) + task_lines(phase)


def context_line(context: Dict[str, Any]) -> str:
    """The memory that CUDA costs a process on a type of GPU before its first tensor."""
    cost = (
        f"{context['measured_mib']} MiB"
        if "measured_mib" in context
        else f"not measured ({context['not_measured']})"
    )
    return f"CUDA context on {context['gpu_type']}: {cost}; assumed {context['assumed_mib']} MiB"


def doctor_lines(told: Dict[str, Any]) -> List[str]:
    """The findings of `carma doctor`, and the cost of a CUDA context."""
    return [
        f"carma doctor: {finding['level']}: {finding['topic']}: {finding['text']}"
        for finding in told["findings"]
        if finding["level"] in ("warn", "bad") and finding["topic"] != "context"
    ] + [context_line(context) for context in told["contexts"]]


def check_lines(result: Dict[str, Any]) -> List[str]:
    lines = [f"note: {sentence}" for sentence in result["noticed"]]
    lines += doctor_lines(result["doctor"]) + source_lines(result["phases"])
    if result.get("overhead"):
        lines.append(overhead_line(result["overhead"]))
    for method, phase in result["phases"].items():
        lines += [f"{method}: {line}" for line in phase_lines(phase)]
    if result.get("pairs"):
        lines += [f"pairs: {line}" for line in pair_lines(result["pairs"])]
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
