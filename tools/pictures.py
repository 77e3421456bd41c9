#!/usr/bin/env python3
"""Draws the pictures of README.md from runs on simulated GPUs: pictures.py BIN_DIR [OUTPUT_DIR, default docs/start].

two-people.svg: tasks of two users on one GPU, one of which runs out of GPU memory and is retried. two-ways.svg: the 60 tasks of
`carma simulate`, one per GPU and under CARMA. Needs root, because tasks run as their users, who exist only in a separate mount namespace; exit status 77
if that is not allowed."""

import html
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from enterable import enterable  # noqa: E402 pylint: disable=wrong-import-position

USERS = {"ada": 60011, "bob": 60012}
COLOURS = {"ada": "#3b78c4", "bob": "#d98527"}
SPEED = 60
# (simulated seconds until its submission, user, name, stated memory, memory in MiB, seconds alone, SM activity)
TASKS = [
    (0, "ada", "resnet50", "12G", 11_000, 2400, 0.20),
    (90, "bob", "bert", "14G", 13_000, 1500, 0.15),
    (240, "bob", "unet", "5G", 9_000, 900, 0.10),
    (420, "ada", "vit", "8G", 7_000, 1500, 0.10),
]
STYLE = "font-family='system-ui, sans-serif' font-size='13'"
GREY, RED = "#777", "#c62828"


def run(*words, user=None):
    """Returns the output of a command."""
    as_user = ["setpriv", f"--reuid={USERS[user]}", f"--regid={USERS[user]}", "--clear-groups"] if user else []
    return subprocess.run([*as_user, *map(str, words)], check=True, capture_output=True, text=True, cwd="/tmp").stdout


def in_own_namespace():
    """Starts this script again in a namespace in which it may add users to /etc/passwd."""
    if os.geteuid() != 0:
        print("skipped: needs root, to run tasks as two users")
        sys.exit(77)
    if os.environ.get("CARMA_PICTURES_INSIDE"):
        return
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0:
        print("skipped: needs permission to create namespaces")
        sys.exit(77)
    os.environ["CARMA_PICTURES_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv])


def add_users(folder):
    """Adds two users who exist only for this process and its children."""
    users = folder / "passwd"
    users.write_text(pathlib.Path("/etc/passwd").read_text(encoding="utf-8") + "".join(
        f"{name}:x:{number}:{number}::/tmp:/bin/sh\n" for name, number in USERS.items()), encoding="utf-8")
    users.chmod(0o644)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", users, "/etc/passwd"], check=True)


def two_people(programs, folder):
    """The record of a run of the tasks above on one GPU, with CARMA's defaults."""
    socket, state = folder / "socket", folder / "gpus"
    run(programs / "carma-simgpu", "create", "--shape", "1xA100-40GB", "--time-scale", SPEED, "--state", state)
    driver = next(path for path in (programs / "libcarma-simgpu.so", programs.parent / "lib" / "libcarma-simgpu.so") if path.exists())
    (folder / "carma.toml").write_text(
        f'[daemon]\nsocket = "{socket}"\nstate_dir = "{folder}/state"\nlog_level = "error"\n[monitor]\nnvml_library = "{driver}"\n'
        f'kernel_log = ""\n[simulation]\nstate = "{state}"\n[collocation]\nmps_control = "{programs}/carma-simmps"\n'
        f'mps_dir = "{folder}/mps"\n', encoding="utf-8")
    carma = [programs / "carma", "--socket", socket]
    with subprocess.Popen([programs / "carmad", "--config", folder / "carma.toml", "--parent", str(os.getpid())]) as daemon:
        try:
            return play(programs, carma)
        finally:
            daemon.terminate()


def play(programs, carma):
    """Submits the tasks at their times, waits for their ends, and returns the record."""
    run(*carma, "status", "--wait")
    began = time.monotonic()
    for at, user, name, stated, mib, seconds, activity in TASKS:
        time.sleep(max(0, at / SPEED - (time.monotonic() - began)))
        run(*carma, "submit", "--job-name", name, "--gpu-mem", stated, "--output", "/dev/null", "--error", "/dev/null", "--",
            programs / "carma-simtask", "--memory-mib", mib, "--solo-s", seconds, "--sm-active", activity, user=user)
    subprocess.run([*map(str, carma), "wait", "-q", *map(str, range(1, len(TASKS) + 1))], check=False, timeout=300)
    return json.loads(run(*carma, "report", "--json"))["run"]


def text(x, y, words, colour="#222", anchor="start", size=13):
    """Text at a position."""
    return f"<text x='{x:.0f}' y='{y:.0f}' fill='{colour}' text-anchor='{anchor}' font-size='{size}'>{html.escape(words)}</text>"


def rectangle(x, y, width, height, colour, opacity=1.0):
    """A filled rectangle."""
    return f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0.5):.1f}' height='{height:.1f}' fill='{colour}' fill-opacity='{opacity}' rx='2'/>"


def svg(width, height, parts):
    """The whole picture, on white, so that it can also be read on dark pages."""
    return (f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' {STYLE}>\n"
            f"<rect width='{width}' height='{height}' fill='#fff'/>\n" + "\n".join(parts) + "\n</svg>\n")


def gib(mib):
    """Formats memory as "12.0G"."""
    return f"{mib / 1024:.1f}G"


def draw_two_people(record):
    """Rows of tasks over time, and below them the memory of the GPU."""
    left, width, row, top = 130, 760, 30, 52
    begin, end = record["from_ms"], record["to_ms"]

    def at(ms):
        return left + (width - left - 20) * (ms - begin) / (end - begin)

    parts = [text(20, 26, "Tasks of ada and bob on one simulated A100 with 40 GB", size=16)]
    for number, task in enumerate(record["tasks"]):
        y = top + number * row
        colour = COLOURS[task["user"]]
        parts.append(text(20, y + 16, f"{task['user']}: {task['name']}", colour))
        parts.append(f"<line x1='{at(task['submitted_ms']):.1f}' x2='{at(task['ended_ms']):.1f}' y1='{y + 11}' y2='{y + 11}' stroke='{GREY}' "
                     "stroke-dasharray='2 3'/>")
        for attempt in task["attempts"]:
            x, until = at(attempt["from_ms"]), at(attempt["to_ms"])
            crashed = attempt["end"] == "out_of_memory"
            parts.append(rectangle(x, y, max(until - x, 4), 22, RED if crashed else colour, 0.85))
            if not crashed:
                parts.append(text(x + 8, y + 16, f"promised {gib(attempt['promised_mib'])}", "#fff", size=12))
        failed = next((attempt for attempt in task["attempts"] if attempt["end"] == "out_of_memory"), None)
        if failed:
            parts.append(text(at(task["ended_ms"]) + 8, y + 16, f"asked for {gib(failed['promised_mib'])}, ran out of it, came back with more", RED, size=12))
        elif task["attempts"] and at(task["attempts"][0]["from_ms"]) - at(task["submitted_ms"]) > 100:
            parts.append(text(at(task["submitted_ms"]), y + 4, "waits until enough memory is free", GREY, size=11))
    y, height = top + len(record["tasks"]) * row + 34, 110
    gpu = record["gpus"][0]
    parts.append(text(20, y + 14, "GPU memory", GREY))
    parts.append(text(20, y + 30, f"of {gib(gpu['usable_mib'])}", GREY, size=12))
    parts.append(rectangle(left, y, width - left - 20, height, "#eee"))
    outline = [(left, y + height)]
    for when, until, mib in zip(gpu["at_ms"], [*gpu["at_ms"][1:], end], gpu["used_mib"]):
        level = y + height - height * (mib or 0) / gpu["usable_mib"]
        outline += [(max(at(when), left), level), (max(at(until), left), level)]
    outline.append((width - 20, y + height))
    parts.append(f"<polygon points='{' '.join(f'{px:.1f},{py:.1f}' for px, py in outline)}' fill='#4a9d68' fill-opacity='0.8'/>")
    minutes = (end - begin) / 60_000
    parts.append(text(left, y + height + 18, "0", GREY, size=12))
    parts.append(text(width - 20, y + height + 18, f"{minutes:.0f} simulated minutes", GREY, "end", 12))
    return svg(width, y + height + 30, parts)


def draw_two_ways(reports):
    """A pair of bars for each quantity, as means over the runs."""
    left, width, top = 200, 760, 52
    quantities = [("All 60 tasks are done after", "trace_total_s", 3600, "h"), ("A task is done after", "jct_s", 60, "min"),
                  ("Of that it waits", "waiting_s", 60, "min"), ("SM activity of the GPUs", "sm_active", 0.01, "%")]
    parts = [text(20, 26, "60 training tasks on four simulated A100: one per GPU, and shared by CARMA under MPS", size=16)]
    y = top
    for name, key, divisor, unit in quantities:
        found = [[report[key]["mean"] if isinstance(report[key], dict) else report[key] for report in reports if report["label"] == label]
                 for label in ("exclusive", "CARMA (mps)")]
        values = [sum(each) / len(each) for each in found]
        parts.append(text(20, y + 22, name))
        for value, colour, label in zip(values, ("#9a9a9a", "#4a9d68"), ("one per GPU", "CARMA")):
            length = (width - left - 190) * value / max(values)
            change = f", {100 * (values[1] / values[0] - 1):+.0f} %" if label == "CARMA" else ""
            parts.append(rectangle(left, y, length, 15, colour))
            parts.append(text(left + length + 8, y + 12, f"{value / divisor:.1f} {unit}, {label}{change}", size=12))
            y += 18
        y += 14
    return svg(width, y, parts)


def main():
    in_own_namespace()
    programs = pathlib.Path(sys.argv[1]).resolve()
    output = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs" / "start")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="carma-pictures.", dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        add_users(folder)
        programs = pathlib.Path(enterable(programs, folder / "programs"))
        (output / "two-people.svg").write_text(draw_two_people(two_people(programs, folder)), encoding="utf-8")
        reports = json.loads(run(programs / "carma", "simulate", "--runs", "20", "--noise", "0.03", "--json"))
        (output / "two-ways.svg").write_text(draw_two_ways(reports), encoding="utf-8")
        subprocess.run(["umount", "/etc/passwd"], check=True)
    print(f"{output}/two-people.svg\n{output}/two-ways.svg")


if __name__ == "__main__":
    main()
