"""Stands in for the training process, without PyTorch: behaves as the network's description says.

If CARMA_SIMGPU_BIN is set, it also holds memory of a simulated GPU, through carma-simtask.
"""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import carma_collect

LAYERS = {"params": 12, "saved_bytes": {"per_sample": 4, "constant": 0}, "layers": []}
DONE = {"steps": 20, "step_ms": 1.5}


def say(**event):
    print(json.dumps(event), flush=True)


def train_on_a_simulated_gpu():
    program = os.path.join(os.environ["CARMA_SIMGPU_BIN"], "carma-simtask")
    options = "--memory-mib 3000 --sm-active 0.5 --load-s 0 --first-batch-share 1 --solo-s 100000"
    task = subprocess.Popen([program, *options.split()], stdout=subprocess.DEVNULL)
    try:
        driver = os.path.join(os.environ["CARMA_SIMGPU_BIN"], "libcarma-simgpu.so")
        gpu = carma_collect.Gpu.open(1, driver)
        while not gpu.utilisation():  # it computes
            time.sleep(0.01)
        say(steady=True)
        time.sleep(0.3)  # the span over which the activity is measured
        say(done=DONE)
        sys.stdin.read()
    finally:
        task.kill()
        task.wait()


def main():
    network = json.loads(sys.stdin.readline())
    index = int(network["model"].rsplit("-", 1)[1])
    behaviour = os.environ.get("FAKE_TRAINING", "done").split(",")
    behaviour = behaviour[index % len(behaviour)]
    say(layers=LAYERS, torch="fake")
    print("a library that prints")
    if behaviour == "simgpu":
        train_on_a_simulated_gpu()
    elif behaviour == "crash":
        raise RuntimeError("illegal memory access")
    elif behaviour == "kill":
        os.kill(os.getpid(), 9)
    elif behaviour == "hang":
        carma_collect.die_with_parent()
        with open(os.environ["FAKE_TRAINING_PID"], "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        time.sleep(600)
    else:
        if behaviour == "done":
            say(steady=True)
        say(**{"oom": {}} if behaviour == "oom" else {"done": {**DONE, "rss_mib": 100.4}})
        sys.stdin.read()


main()
