#!/usr/bin/env python3
"""Writes data/traces/demo60.csv: the project's own 60-task trace (submit_s,workload_id).

  tools/make_demo_trace.py > data/traces/demo60.csv

Arrivals come in bursts, as in Microsoft's Philly trace: with probability 0.4, the next task follows within the same burst
(exponential, mean 25 s), otherwise after a pause (exponential, mean 235 s). All times are then stretched so that the last
task arrives at 9 000 s. The mix is that of the dissertation's 60-task trace: 7 light, 44 medium and 9 heavy tasks, three of
them on two GPUs. Medium tasks are spread evenly over the ImageNet networks and batch sizes. The order is shuffled. The seed
determines everything.
"""
import random

SEED = 2026
TASKS, LAST_S = 60, 9000
P_BURST, BURST_MEAN_S, PAUSE_MEAN_S = 0.4, 25, 235

LIGHT = ["mnist-cnn-b64", "mnist-cnn-b64", "resnet18-cifar-b32", "resnet34-cifar-b128",
         "efficientnet-cifar-b64", "mobilenet-cifar-b64", "mobilenet-cifar-b64"]
HEAVY = ["bert-base-b32"] * 4 + ["bert-large-b8"] * 2 + ["xlnet-base-2gpu", "xlnet-large-2gpu", "gpt2-large-2gpu"]
MEDIUM = [f"{net}-b{batch}" for net in ("resnet50", "efficientnet", "mobilenet", "inception", "vgg16", "xception")
          for batch in (32, 64, 128)]
MEDIUM_TASKS = TASKS - len(LIGHT) - len(HEAVY)


def arrivals(rng):
    times = [0.0]
    while len(times) < TASKS:
        burst = rng.random() < P_BURST
        times.append(times[-1] + rng.expovariate(1 / (BURST_MEAN_S if burst else PAUSE_MEAN_S)))
    return [round(t * LAST_S / times[-1]) for t in times]


def workloads(rng):
    # Medium workloads: complete rounds over all of them, and a draw without repetition for the rest.
    rounds, rest = divmod(MEDIUM_TASKS, len(MEDIUM))
    names = LIGHT + HEAVY + MEDIUM * rounds + rng.sample(MEDIUM, rest)
    rng.shuffle(names)
    return names


def main():
    rng = random.Random(SEED)
    print("# CARMA's 60-task demonstration trace, made by tools/make_demo_trace.py; workloads: ../workloads/catalogue.csv")
    print("submit_s,workload_id")
    for submit_s, name in zip(arrivals(rng), workloads(rng)):
        print(f"{submit_s},{name}")


if __name__ == "__main__":
    main()
