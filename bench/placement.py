#!/usr/bin/env python3
"""Makes the tables of docs/evidence/policies.md: the effect of placement rules on published and generated loads.

bench/placement.py build/release/bin DATA TABLE [RUNS]

DATA contains traces/ (carma_heavy60.csv, carma_mix90.csv, carma_t1.csv: the published loads; philly_vc_jobs.csv) and workloads/ (catalog.csv with the published
measurements, summaries/), which are not part of CARMA. TABLE is one of the tables at the end of this file. All runs have 3 % noise, and policies are compared run
by run: changes of the makespan are in percent of exclusive use, completion and waiting times are in minutes, "±" is the standard error of the mean over loads.
"""
import csv
import functools
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

BIN, DATA = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
CATALOGUE, SUMMARIES = DATA / "workloads" / "catalog.csv", ("--summaries", str(DATA / "workloads" / "summaries"))
RUNS = int((sys.argv[4:] or [20])[0])
FOLDER = tempfile.TemporaryDirectory()
SETTINGS = "magm,sm_cap=0.95,window=15s,margin=512M"
BY_WORK = "by-work"  # the default under MPS, with the values that it sets
PUBLISHED = ["heavy60", "mix90", "t1"]
NINE = PUBLISHED + ["made11", "made12", "made13", "made14", "philly0-0", "philly0-1"]
LOOKED_AT = NINE + [f"made{seed}" for seed in range(51, 59)] + [f"philly2-{i}" for i in range(8)]
NOT_LOOKED_AT = ([f"made{seed}" for seed in range(32, 37)] + [f"philly1-{i}" for i in range(6)] + [f"made{seed}" for seed in range(71, 83)]
                 + [f"philly3-{i}" for i in range(8)])
# Generated loads: number of tasks, mean gap in seconds.
MADE = dict(zip(range(11, 15), [(120, gap) for gap in (420, 240, 120, 180)]))
MADE |= dict(zip(range(32, 37), [(120, gap) for gap in (420, 340, 260, 180, 100)]))
MADE |= {seed: ((60, 90, 120, 150)[i % 4], (400, 150, 250, 80)[i % 4]) for i, seed in enumerate(range(51, 59))}
MADE |= {seed: ((80, 120, 150)[i % 3], (350, 90, 220, 160)[i % 4]) for i, seed in enumerate(range(71, 83))}
MADE |= {seed: (150, 180) for seed in range(1, 5)}
# Mean gaps of the loads of built-in workloads.
BUILTIN = dict(zip(range(32, 38), (100, 100, 60, 100, 140, 180)))
# Windows of the cluster's trace: days, jobs, seed.
PHILLY = [
    [(10, 36, 72, 1), (36, 52, 72, 1)],
    [(*days, 72, 7 + i) for i, days in enumerate(((0, 10), (20, 30), (30, 44), (52, 64), (64, 80), (80, 125)))],
    [(i * 8, i * 8 + 14, 72 + 10 * (i % 3), 20 + i) for i in range(8)],
    [(i * 9 + 4, i * 9 + 20, 72 + 10 * (i % 3), 40 + i) for i in range(8)],
]


def run(*words, stdin=None):
    return subprocess.run([str(word) for word in words], input=stdin, check=True, capture_output=True, text=True).stdout


def trace(*words, stdin=None):
    return run(BIN / "carma", "trace", *words, stdin=stdin)


def rows_of(file):
    with file.open() as lines:
        return list(csv.DictReader(lines))


@functools.cache
def newer_catalogue():
    """A catalogue with the run times and the memory of the newer publication, to which load t1 belongs. That publication gives the time of one epoch for CNNs, and
    impossible times for Mask R-CNN and UNet, which are not used."""
    rows = rows_of(CATALOGUE)
    for row in rows:
        if row["run_minutes_csv2"] and row["model"] not in ("MaskRCNN", "UNet"):
            row["solo_seconds"] = str(60 * float(row["run_minutes_csv2"]) * (int(row["epochs"]) if row["domain"] == "cnn" else 1))
        if row["memory_mib_rad2"]:
            row["memory_mib_run60"] = row["memory_mib_rad2"]
            row["memory_mib_run60_gpu2"] = row["memory_mib_rad2"] if row["gpus"] == "2" else ""
    return write("newer.csv", rows)


def window(start, end, jobs, seed):
    """A window of the trace. Its arrivals are compressed to half of the time that four GPUs used exclusively would need."""
    picked = trace("window", DATA / "traces" / "philly_vc_jobs.csv", "--from", f"{start}d", "--to", f"{end}d", "--max-gpus", 2)
    sampled = trace("sample", "-", "--gpus", 4, "--tasks", jobs, "--seed", seed, stdin=picked)
    lines = trace("map", "-", "--workloads", CATALOGUE, "--seed", seed, stdin=sampled).splitlines()
    header, *tasks = [line.split(",") for line in lines if not line.startswith("#")]
    work = {row["workload_id"]: float(row["solo_seconds"]) * int(row["gpus"]) for row in rows_of(CATALOGUE) if row["solo_seconds"]}
    scale = 0.5 * sum(work[task[1]] for task in tasks) / 4 / (float(tasks[-1][0]) or 1)
    return "\n".join(",".join(row) for row in [header] + [[str(round(float(task[0]) * scale))] + task[1:] for task in tasks]) + "\n"


@functools.cache
def small_catalogue():
    """A catalogue of the tasks that fit on one of a GPU's three instances."""
    most = lambda row: max((float(row[key]) for key in ("memory_mib_thesis", "memory_mib_rad2", "memory_mib_run60") if row[key]), default=0)
    return write("small.csv", [row for row in rows_of(CATALOGUE) if row["gpus"] == "1" and row["solo_seconds"] and 0 < most(row) < 9500])


def write(name, rows):
    file = pathlib.Path(FOLDER.name) / name
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return file


def made_up(name, tasks, gap, seed, *words, most_gpus=2):
    jobs = trace("generate", "--tasks", tasks, "--max-gpus", most_gpus, "--mean-gap", gap, "--seed", seed)
    file = pathlib.Path(FOLDER.name) / f"{name}.csv"
    file.write_text(trace("map", "-", *words, stdin=jobs))
    return file


@functools.cache
def load(name):
    """The words of `carma simulate` that name the load."""
    kind = name.rstrip("0123456789-")
    number = name.removeprefix(kind)
    if kind in ("heavy", "mix"):
        return ("--trace", DATA / "traces" / f"carma_{name}.csv", "--workloads", CATALOGUE)
    if kind == "t":
        return ("--trace", DATA / "traces" / "carma_t1.csv", "--workloads", newer_catalogue())
    if kind == "demo":
        return ()
    if kind == "philly":
        group, index = number.split("-")
        file = pathlib.Path(FOLDER.name) / f"{name}.csv"
        file.write_text(window(*PHILLY[int(group)][int(index)]))
        return ("--trace", file, "--workloads", CATALOGUE)
    seed = int(number)
    if kind == "builtin":
        return ("--trace", made_up(name, 120, BUILTIN[seed], seed))
    if kind == "small":
        words = ("--workloads", small_catalogue())
        return ("--trace", made_up(name, 120, MADE[seed][1] / 2, seed, *words, "--mix", "light=60,medium=40", most_gpus=1), *words)
    words = ("--workloads", CATALOGUE)
    return ("--trace", made_up(name, *MADE[seed], seed, *words), *words)


@functools.cache
def simulate(words, policy, more):
    return json.loads(run(BIN / "carma", "simulate", *words, *more, "--runs", RUNS, "--noise", 0.03, "--policy", policy, "--json"))


@functools.cache
def measure(words, policy, more=SUMMARIES):
    """The figures of a policy on a load, compared run by run with exclusive use."""
    ones, alone = simulate(words, policy, more), simulate(words, "exclusive", more)
    change = lambda key: [100 * (one[key] / base[key] - 1) for one, base in zip(ones, alone)]
    mean = lambda figure: statistics.mean(figure(one) for one in ones)
    return {
        "changes": change("trace_total_s"),
        "energy": statistics.mean(change("energy_mj")),
        "completion": mean(lambda one: one["jct_s"]["mean"]) / 60,
        "slowdown": mean(lambda one: one["slowdown"]["mean"]),
        "slowdown95": mean(lambda one: one["slowdown"]["p95"]),
        "crashes": mean(lambda one: one["oom_crashes"]),
        "longest": mean(lambda one: one["waiting_s"]["max"]) / 60,
        "failed": mean(lambda one: one["tasks"] - one["tasks_by_state"].get("succeeded", 0)),
    }


def makespan(figures):
    return statistics.mean(figures["changes"])


def mean(cells, key):
    return statistics.mean(key(cell) if callable(key) else cell[key] for cell in cells)


def error(values):
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0


def number(value, digits=1):
    return f"{value:.{digits}f}".replace("-", "−")


def signed(value, digits=1):
    return f"{value:+.{digits}f}".replace("-", "−")


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def head(*cells):
    row(*cells)
    print("|---" * len(cells) + "|")


def crashes(cells):
    return f", {number(mean(cells, 'crashes'))} crashes" if mean(cells, "crashes") >= 0.05 else ""


def plateaus():
    rules = ["magm,plateau_after=false", "magm", "magm,sm_cap=0.95,plateau_after=false", "magm,sm_cap=0.95", SETTINGS]
    made = [f"made{seed}" for seed in range(1, 5)]
    head("rules", *PUBLISHED, "made up, mean of 4", "slowly: " + ", ".join(PUBLISHED), "slowly: made up")
    for rule in rules:
        fast, slow = [{name: measure(load(name), rule, SUMMARIES + model) for name in PUBLISHED + made}
                      for model in ((), ("--model", "memory_first=0.6,memory_ramp=10m"))]
        of_made = lambda cells: [cells[name] for name in made]
        row(f"`{rule}`", *[f"{number(makespan(fast[name]))}, {fast[name]['completion']:.0f}{crashes([fast[name]])}" for name in PUBLISHED],
            f"{number(mean(of_made(fast), makespan))}, {mean(of_made(fast), 'completion'):.0f}{crashes(of_made(fast))}",
            ", ".join(number(makespan(slow[name])) + crashes([slow[name]]) for name in PUBLISHED),
            f"{number(mean(of_made(slow), makespan))}, {mean(of_made(slow), 'completion'):.0f}{crashes(of_made(slow))}")


def unknown():
    """A table of loads. Nothing is known about their tasks until a task of the same kind has run."""
    names = ["demo60"] + PUBLISHED
    head("", *names)
    for rule in ("magm", "magm,sm_cap=0.95", "magm,sm_cap=0.95,floor=15G", "magm,history=runs", "magm,sm_cap=0.95,history=runs"):
        cells = [measure(load(name), rule, ()) for name in names]
        row(f"`{rule}`", *[number(makespan(cell)) + (f", {number(cell['crashes'])}" if cell["crashes"] >= 0.05 else "") for cell in cells],
            "slowdown " + ", ".join(number(cell["slowdown"], 2) for cell in cells))
    spikes = ("--model", "memory_growth=0.05,memory_spike=0.1,memory_spike_every=30m")
    for margin in ("512M", "2G"):
        for summaries in ((), SUMMARIES):
            cell = measure(load("heavy60"), f"magm,sm_cap=0.95,margin={margin}", summaries + spikes)
            print("with spikes, margin", margin, "with summaries" if summaries else "without summaries", number(makespan(cell)), number(cell["crashes"], 2))


ROWS = {
    "magm": "magm", "settings": SETTINGS, "**default**": BY_WORK,
    "magm, seen": "magm,history=runs", "settings, seen": SETTINGS + ",history=runs", "**default**, seen": BY_WORK + ",history=runs",
    "default, seen, durations": BY_WORK + ",history=runs,durations=true",
    "default, seen, measured": BY_WORK + ",history=runs,profiles=measured",
    "default, seen, measured, durations": BY_WORK + ",history=runs,profiles=measured,durations=true",
    "default, seen, `max_slowdown=2.5`": BY_WORK + ",history=runs,max_slowdown=2.5",
    "default, seen, measured, `max_slowdown=2.5`": BY_WORK + ",history=runs,profiles=measured,max_slowdown=2.5",
}


def nine():
    head("", *NINE, "mean", "completion", "slowdown, 95 %", "crashes", "longest wait")
    for name, rule in ROWS.items():
        cells = [measure(load(one), rule) for one in NINE]
        row(name, *[number(makespan(cell)) for cell in cells], number(mean(cells, makespan)), number(mean(cells, "completion"), 0),
            f"{number(mean(cells, 'slowdown'), 2)}, {number(mean(cells, 'slowdown95'), 2)}", number(mean(cells, "crashes"), 2), number(mean(cells, "longest"), 0))
    ramp, measured = ("--model", "memory_first=0.6,memory_ramp=10m"), ROWS["default, seen, measured"]
    for name, rule, model in (
            *[(f"ramp: {name}", ROWS[name], ramp) for name in ("magm", "settings", "**default**", "**default**, seen")],
            ("activity ± 30 %", measured + ",activity_sigma=0.26", ()), ("s and p × / ÷ 1.5", measured + ",slowdown_sigma=0.4", ()),
            ("run times × / ÷ 2", ROWS["default, seen, measured, durations"] + ",duration_sigma=0.7", ())):
        cells = [measure(load(one), rule, SUMMARIES + model) for one in NINE]
        print(name, number(mean(cells, makespan)), "crashes", number(mean(cells, "crashes"), 2))


def published():
    rows = {"first day": "**default**", "seen": "**default**, seen", "seen, measured": "default, seen, measured",
            "and durations": "default, seen, measured, durations", "measured, `max_slowdown=2.5`": "default, seen, measured, `max_slowdown=2.5`"}
    head("", *PUBLISHED, "standard errors")
    for name, rule in rows.items():
        cells = [measure(load(one), ROWS[rule]) for one in PUBLISHED]
        row(name, *[f"{number(makespan(cell))}, {cell['completion']:.0f}, {number(cell['slowdown95'])}, {number(cell['energy'])}" for cell in cells],
            ", ".join(number(error(cell["changes"])) for cell in cells))


def later(cells, others):
    """On how many loads the rule ends later by more than twice the standard error of that load's mean, and by how much."""
    found = []
    for cell, other in zip(cells, others):
        differences = [one - two for one, two in zip(cell["changes"], other["changes"])]
        if statistics.mean(differences) > max(0.05, 2 * error(differences)):
            found.append(statistics.mean(differences))
    return f"{len(found)}" + (f", {number(min(found))} to {number(max(found))}" if found else "")


def all_loads():
    rows = ["magm", "settings", "**default**", "magm, seen", "settings, seen", "**default**, seen", "default, seen, measured"]
    halves = [{name: [measure(load(one), ROWS[name]) for one in names] for name in rows} for names in (LOOKED_AT, NOT_LOOKED_AT)]
    head("", "makespan", "against settings", "completion", "slowdown, 95 %", "crashes", "longest wait", "later")
    for name in rows:
        seen = "seen" in name
        against, defaults = ("settings, seen", "magm, seen") if seen else ("settings", "magm")
        both = lambda text: "; ".join(text(half, half[name]) for half in halves)

        def settings(half, cells):
            gains = [makespan(cell) - makespan(other) for cell, other in zip(cells, half[against])]
            return f"{number(statistics.mean(gains))} ± {number(error(gains))}"

        row(name, both(lambda half, cells: number(mean(cells, makespan))), both(settings), both(lambda half, cells: number(mean(cells, "completion"), 0)),
            both(lambda half, cells: f"{number(mean(cells, 'slowdown'), 2)}, {number(mean(cells, 'slowdown95'), 2)}"),
            both(lambda half, cells: number(mean(cells, "crashes"), 2)), both(lambda half, cells: number(mean(cells, "longest"), 0)),
            both(lambda half, cells: later(cells, half[defaults])))
    for rule in ("magm", BY_WORK + ",sm_cap=0.8", BY_WORK):
        cells = [measure(load(one), rule, ()) for one in LOOKED_AT + NOT_LOOKED_AT]
        print("without any summary:", rule, number(mean(cells, makespan)), "crashes", number(mean(cells, "crashes"), 2))


def against(name, base, rule, more=SUMMARIES):
    """Prints one line that compares the rule with the base, for the loads that were used for tuning and for the other loads."""
    halves = []
    for names in (LOOKED_AT, NOT_LOOKED_AT):
        cells, others = [[measure(load(one), each, more) for one in names] for each in (rule, base)]
        halves.append(([makespan(cell) - makespan(other) for cell, other in zip(cells, others)], cells, others))
    both = lambda text: "; ".join(text(gains, cells) for gains, cells, _ in halves)
    row(name, both(lambda gains, cells: number(mean(cells, makespan))), both(lambda gains, cells: f"{signed(statistics.mean(gains))} ± {number(error(gains))}"),
        both(lambda gains, cells: number(mean(cells, "completion"), 0)), both(lambda gains, cells: number(mean(cells, "slowdown95"), 2)),
        both(lambda gains, cells: number(mean(cells, "crashes"), 2)), both(lambda gains, cells: number(mean(cells, "longest"), 0)),
        "; ".join(later(cells, others) for _, cells, others in halves))


def sweep(base, values, more=SUMMARIES):
    head("", "makespan", "against it", "completion", "slowdown, 95 %", "crashes", "longest wait", "later")
    against(f"`{base}`", base, base, more)
    for value in values:
        against(f"`{value}`", base, f"{base},{value}", more)


BY_WORK_VALUES = ["pass_limit=0s", "pass_limit=10m", "pass_limit=30m", "pass_limit=1h", "pass_limit=90m", "pass_limit=4h", "backfill=1", "backfill=4", "backfill=10", "backfill=100",
                  "min_gain=0.03", "min_gain=0.1", "min_gain=false", "margin=512M", "margin=2G", "coverage=0.5", "coverage=0.7", "coverage=0.8", "coverage=0.95", "window=15s", "window=30s",
                  "floor=5G", "sm_cap=0.8", "sm_cap=0.95"]
DEFAULT_VALUES = ["sm_cap=0.85", "sm_cap=0.9", "sm_cap=0.95", "window=15s", "window=30s", "margin=512M", "margin=1G", "margin=4G", "coverage=0.8", "coverage=0.95", "floor=10G", "floor=15G",
                  "backfill=10", "backfill=1000", "min_gain=0.06", "plateau_after=5m", "plateau_after=30m", "plateau_after=false",
                  "sm_cap=0.9,floor=15G", "sm_cap=0.9,floor=15G,backfill=10", "sm_cap=0.95,floor=15G,backfill=10"]


def values():
    for rule in (BY_WORK, BY_WORK + ",history=runs"):
        sweep(rule, BY_WORK_VALUES)
        print()


def defaults():
    sweep("magm", DEFAULT_VALUES)
    print()
    sweep("magm", DEFAULT_VALUES, ())


def turns():
    rule = BY_WORK + ",collocation=streams"
    some = LOOKED_AT[3:13] + NOT_LOOKED_AT[:10]
    head("", *PUBLISHED, "20 others")
    for name, policy in (("magm", "magm,collocation=streams"), ("by-work", rule), ("magm, seen", "magm,collocation=streams,history=runs"), ("**default**, seen", rule + ",history=runs")):
        cells = [measure(load(one), policy) for one in PUBLISHED + some]
        row(name, *[f"{number(makespan(cell))} ± {number(error(cell['changes']))}, {cell['completion']:.0f}" for cell in cells[:3]],
            f"{number(mean(cells[3:], makespan))}, {mean(cells[3:], 'completion'):.0f}")


def by_knowledge(columns):
    """A table that compares the defaults with by-work, on a first day and later. columns: for each title, the loads, the words that are added to the policy, and
    further words of `carma simulate`."""
    head("", *columns)
    for name, policy in (("magm", "magm"), ("by-work", BY_WORK), ("magm, seen", "magm,history=runs"), ("**default**, seen", BY_WORK + ",history=runs")):
        cells = []
        for loads, words, more in columns.values():
            ones = [measure(load(one), policy + words, more) for one in loads]
            cells.append(f"{number(mean(ones, makespan))}, {mean(ones, 'completion'):.0f}{crashes(ones)}" + (", failed" if mean(ones, "failed") else ""))
        row(name, *cells)


def types():
    loads = [f"builtin{seed}" for seed in BUILTIN]
    servers = {"2 H100, 2 A100": "2xH100-80GB,2xA100-40GB", "1 H100, 3 V100": "1xH100-80GB,3xV100-32GB"}
    by_knowledge({name: (loads, "", ("--server", server)) for name, server in servers.items()})


def instances():
    loads = [f"small{seed}" for seed in range(11, 15)]
    ways = {"whole GPUs, MPS": "", "two instances": ",collocation=mig,mig_instances=2", "three": ",collocation=mig,mig_instances=3",
            "two, shared": ",collocation=mig,mig_instances=2,share_mig=true"}
    by_knowledge({name: (loads, words, SUMMARIES) for name, words in ways.items()})


def worlds():
    """Cases in which sharing has costs that the default rules do not know, on 14 loads."""
    names = LOOKED_AT[3:17]
    ways = {
        "as simulated": (), "oversubscription 0.25": ("--model", "oversubscription=0.25"), "64 cores, 8 wanted": ("--model", "cpu_cores=64,cpu_cores_wanted=8"),
        "128 cores, 8 wanted": ("--model", "cpu_cores=128,cpu_cores_wanted=8"),
        "ramp, growth, spikes": ("--model", "memory_first=0.6,memory_ramp=10m,memory_growth=0.05,memory_spike=0.1,memory_spike_every=30m"),
    }
    head("", *ways)
    for rule in ("magm", BY_WORK):
        cells = [[measure(load(one), rule, SUMMARIES + more) for one in names] for more in ways.values()]
        row(rule, *[f"{number(mean(ones, makespan))} ± {number(error([makespan(one) for one in ones]))}, {mean(ones, 'completion'):.0f}{crashes(ones)}" for ones in cells])


def servers():
    """Tasks on several GPUs, as MPS clients (mps_servers=user) or taking turns with the MPS clients of each GPU (mps_servers=gpu)."""
    head("", "demo60", *PUBLISHED)
    for rule in (f"{mapper},mps_servers={word}" for mapper in (BY_WORK, "magm") for word in ("user", "gpu")):
        cells = [measure(load("demo60"), rule, ())] + [measure(load(one), rule) for one in PUBLISHED]
        row(f"`{rule}`", *[f"{number(makespan(cell))}, {cell['completion']:.0f}{crashes([cell])}" for cell in cells])


def of_users(words, choose):
    """The words of a load. `choose` names the user of each task."""
    lines = pathlib.Path(words[1]).read_text().splitlines()
    header = next(index for index, line in enumerate(lines) if not line.startswith("#"))
    rows = [f"{line},{choose(number)}" for number, line in enumerate(lines[header + 1:])]
    file = pathlib.Path(FOLDER.name) / f"users{len(list(pathlib.Path(FOLDER.name).iterdir()))}.csv"
    file.write_text("\n".join([*lines[:header], lines[header] + ",user", *rows]) + "\n")
    return (words[0], file, *words[2:])


def session(seed, users):
    """Chooses users in sessions: one user submits for a while, then another. Users with low numbers come more often."""
    draw, now = random.Random(seed), [0]

    def choose(_):
        if draw.random() < 0.25:
            now[0] = draw.choices(range(users), [1 / (each + 1) for each in range(users)])[0]
        return f"u{now[0]}"
    return choose


def users():
    """Several users under MPS. Their tasks take turns on a GPU unless they share a server. Their submissions alternate or come in sessions."""
    ones = {f"{name}, {users}": [of_users(load(name), lambda number, users=users: f"u{number % users}")] for name in ("heavy60", "mix90") for users in (1, 2, 8)}
    ones["sessions"] = [of_users(("--trace", made_up(f"sessions{seed}-{users}", 120, 300, seed, "--workloads", CATALOGUE), "--workloads", CATALOGUE), session(seed, users))
                        for seed in (1, 2, 3) for users in (3, 8)]
    head("", *ones)
    for rule in ("magm", BY_WORK, f"{BY_WORK},mps_servers=shared"):
        cells = [[measure(each, rule) for each in loads] for loads in ones.values()]
        row(rule, *[f"{number(mean(cell, makespan))}, {mean(cell, 'completion'):.0f}" for cell in cells])


TABLES = {"servers": servers, "users": users, "worlds": worlds, "plateaus": plateaus, "unknown": unknown, "nine": nine, "published": published, "56": all_loads, "values": values, "defaults": defaults, "turns": turns,
          "types": types, "instances": instances}

if __name__ == "__main__":
    TABLES[sys.argv[3]]()
