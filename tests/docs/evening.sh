# The first evening of a new user who has read only README.md. evening_test.py runs these commands (shown.py).
rm /etc/carma/carma.toml
carmad --background --simulate 4xA100-40GB                                # -> in the background
stat -c %a /run/carma                                                     # -> 755
carma                                                                     # -> submit a task to the queue
carma status                                                              # -> carmad
carma doctor                                                              # -> GPU
printf 'import time\nfor e in range(1, 4):\n    print("epoch %%d/3 loss %%.2f" %% (e, 1 / e))\n' > hello.py
carma submit --gpu-mem 12G -- python3 hello.py                            # -> Submitted task 1
carma list -a                                                             # later: CD
carma logs -f                                                             # later: epoch 3/3
carma explain                                                             # later: succeeded
carma show 1                                                              # -> python3 hello.py
carma submit -- python3 helo.py                                           # -> did you mean
carma submit train.sh                                                     # -> Submitted task 2
carma wait @
carma gpus                                                                # -> A100
carma submit --param lr=0.1,0.01 -- python3 train.py --lr {lr}            # -> Submitted tasks 3-4
carma wait 3-4
carma list -a --unfold                                                    # later: lr=0.01
carma logs 4                                                              # later: --lr 0.01
carma submit --gpu-mem 12G -J broken -- python3 -c 'import nosuchmodule'  # -> Submitted task 5
carma explain                                                             # later: No module named 'nosuchmodule'
carma history 4                                                           # -> submitted
carma history 4                                                           # later: succeeded
carma list -t failed                                                      # later: broken
carma submit -J long --time 8h --gpu-mem 30G -- sleep 600                 # -> Submitted task 6
carma list                                                                # later: long
carma edit @ --time 2h
carma top --help                                                          # -> GPUs
carma submit -J after --dependency afterok:@ -- true                      # -> Submitted task 7
carma explain                                                             # later: Waiting for task
carma cancel 6                                                            # later: Task 6 is
carma list -a                                                             # later: CA
carma submit --gpu-mem 100G -- true                                       # -> the largest has
carma submit --array 1-3 -- sh -c 'echo member $CARMA_ARRAY_INDEX'        # -> Submitted tasks
carma logs @                                                              # later: member 3
carma history @                                                           # -> submitted
printf '#!/bin/bash\n#SBATCH --gres=gpu:2 --ntasks-per-node=2 -o ddp.out\nsrun sh -c "echo rank \\$SLURM_PROCID of \\$SLURM_NTASKS"\n' > ddp.sh
carma submit -W ddp.sh                                                    # -> Submitted task
cat ddp.out                                                               # -> rank 1 of 2
carma run --gpu-mem 2G -- python3 hello.py                                # later: epoch 3/3
carma usage                                                               # -> root
carma report                                                              # -> tasks
carma redo 1                                                              # -> Submitted
carma hold 1                                                              # -> task 1 has already succeeded
carma submit --hold -J later -- echo at last                              # -> Submitted task
carma list                                                                # -> (Held
carma release @
carma wait @
carma logs @                                                              # -> at last
carma submit --hold -J parts --array 1-3 -- true                          # -> Submitted tasks
carma submit -J merged -d afterok:@ -- echo all parts                     # -> Submitted task
carma show @                                                              # -> afterok
carma release --name parts
carma wait @ && carma logs @                                              # -> all parts
carma submit --check --gpu-mem 12G -- python3 hello.py                    # -> Nothing was submitted
carma submit --notify me -J mailed -- true                                # -> Submitted task
carma submit --notfy me -- true                                          # -> --notify
carma submit --check --gpu-mem 12 -- true                                 # -> 12 without a unit means 12 MiB; did you mean 12G?
carma progress $PWD/carma/README.md                                       # -> no progress
printf '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list","arguments":{}}}\n' | carma mcp    # -> NAME
carma cancel --all
carma drain 3
carma gpus                                                                # -> drained
carma resume 3
carma report --html report.html && grep -c '<svg' report.html             # -> 1
carma list -a --json                                                      # -> "state"
carma estimate resnet50.rad                                               # -> G
carma simulate                                                            # -> than
PYTHONPATH=carma/python python3 -c 'import carma; print(carma.Executor(gpus=0).submit(sum, (1, 2)).result())'    # -> 3
kill -9 $(carma status --json | grep -o '"pid":[0-9]*' | cut -d: -f2)
carma list                                                                # later: not running
carmad --background --simulate 4xA100-40GB                                # -> in the background
carma list -a                                                             # later: broken
# The same machine with a driver: carmad finds the library by its name, and needs no configuration.
kill $(carma status --json | grep -o '"pid":[0-9]*' | cut -d: -f2)
mkdir driver && ln -s ../carma/build/release/bin/libcarma-simgpu.so driver/libnvidia-ml.so.1
LD_LIBRARY_PATH=$PWD/driver carmad --background                           # -> in the background
carma status --wait                                                       # -> Driver   ok
carma gpus                                                                # -> A100
carma submit --gpu-mem 2G -- sh -c 'echo on $CUDA_VISIBLE_DEVICES'        # -> Submitted task 1
carma logs                                                                # later: on GPU-
carma list -a                                                             # later: CD
carma doctor                                                              # -> driver
