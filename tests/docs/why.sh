# Commands for each complaint in docs/start/why.md, on a simulated server of four A100-40GB whose clock runs 60 times as fast.
# After "#" come the row's number and the expected output. why_test.py types all of them, and repeats a command with an expected
# output until it prints that text.
CARMA_IDLE_AFTER=5m carmad --background
carma submit -J many --array 1-24 -- carma-simtask --memory-mib 20000 --solo-s 10
carma list                                                                # 1: (WarmUp)
carma run -G 0 -- echo at once                                            # 6: at once
carma submit -G 0 -J long -- sleep 600
carmad                                                                    # 5: in use by another carmad
pid=$(carma status --json | grep -o '"pid":[0-9]*' | cut -d: -f2) && kill -9 $pid
CARMA_IDLE_AFTER=5m carmad --background                                   # 8: in the background
carma list --name long -o name,st                                         # 8: long  R
carma cancel --name many

carma submit -J pair --gpu 0 --gpu-mem 4G --array 1-2 -- carma-simtask --memory-mib 3000 --solo-s 900
carma list                                                                # 2: pair[2]  root  R
carma gpus -v 0                                                           # 25: pair
carma submit -J early --gpu 1 --gpu-mem 12G -- carma-simtask --memory-mib 9000 --solo-s 9 --load-s 600
carma gpus                                                                # 23: 0M/40.0G     12.0G
carma cancel --name early
carma submit -J astray --gpu 1 --gpu-mem 4G -- env -u CUDA_MPS_PIPE_DIRECTORY CUDA_VISIBLE_DEVICES=2 carma-simtask --memory-mib 3000 --solo-s 900
carma explain                                                             # 4: has processes on GPU 2 outside its assignment
carma cancel --name astray

carma-simgpu hold --gpu 3 --mib 30000 & carma gpus -v 3                   # 3: carma-simgpu hold
carma submit -J big --gpu 3 --gpu-mem 20G -- true
carma explain                                                             # 10: (GpuMemory)
carma cancel --name big
carma submit --gpu-type h100 -- true                                      # 7: there is no GPU of type h100 here
carma submit --gpu-mem 80G -- true                                        # 11: the largest has 39.6G
carma run -- sh -c 'env | grep -c LD_PRELOAD'                             # 14: 0
carma run -- env                                                          # 21: TF_FORCE_GPU_ALLOW_GROWTH=true

carma submit -J failed -- python3 -c 'open("/data/index.json")'
carma explain                                                             # 9: No such file or directory: '/data/index.json'
carma submit -J grows --gpu 3 --gpu-mem 6G -- carma-simtask --memory-mib 12000 --solo-s 60 --framework pytorch
carma history @                                                           # 12: Retry 1 of 3
carma cancel --name grows
carma submit -J never --gpu 3 --retries 0 --gpu-mem 2G -- carma-simtask --memory-mib 39000 --framework pytorch
carma list -t oom                                                         # 24: (OutOfMemory)
carma submit -J both --gpu 2 --gpu-mem 4G -- sh -c 'carma-simtask --memory-mib 3900 --solo-s 900 & carma-simtask --memory-mib 3900 --solo-s 900'
carma explain                                                             # 16: MPS, no limits enforced
carma list                                                                # 13: (OverPromise)
carma list                                                                # 18: (OverPromise)
carma cancel --name pair && carma cancel --name both

carma submit -J half --gpu 0 --gpu-mem 4G --sm-share 50% -- carma-simtask --memory-mib 3000 --solo-s 9000
carma show                                                                # 17: at most 50% of each GPU's SMs
carma submit -J third --gpu 0 --gpu-mem 4G --sm-share 30% -- carma-simtask --memory-mib 3000 --solo-s 9000
carma list -t running -o name                                             # 19: third
carma submit -J more --gpu 0 --gpu-mem 4G --sm-share 40% -- true
carma explain                                                             # 19: 80 % of GPU 0 is promised to other tasks
carma cancel --name half && carma cancel --name third && carma cancel --name more

carma-simgpu fault --gpu 1 --kind used-over-total
carma gpus                                                                # 15: (more memory in use than
carma-simgpu clear
carma-simgpu fault --gpu 1 --kind nan-activity
carma gpus                                                                # 26: (SM activity is not
carma-simgpu clear
carma submit -J lazy --gpu 2 --gpu-mem 4G -- carma-simtask --memory-mib 3000 --hang-at 0.1 --solo-s 600
carma list                                                                # 27: (IdleHolder)
carma cancel --name lazy
carma submit -J orphan --gpu 1 --gpu-mem 4G -- carma-simtask --memory-mib 3000 --solo-s 9000 --double-fork --ignore-term
carma list -o name,mem                                                    # 28: 2.9G/4.0G
carma cancel @
carma gpus 1                                                              # 28: 0M/40.0G

printf '#!/bin/bash\n#SBATCH --ntasks-per-node=2 --gres=gpu:2\nsrun printenv SLURM_PROCID\n' > job.sh
carma submit -W job.sh && carma logs                                      # 22: 1
pid=$(carma status --json | grep -o '"pid":[0-9]*' | cut -d: -f2) && kill $pid
printf '#!/bin/sh\nexec sleep 600\n' > hangs && chmod +x hangs
CARMA_COLLOCATION_MPS_CONTROL=$PWD/hangs CARMA_POLICY_REQUIRE='own_tasks < 1' carmad --background    # 20: in the background
carma status --wait                                                       # 20: the MPS control program did not respond in time
carma run -- echo without MPS                                             # 20: without MPS
carma submit -J mine --gpu 0 --array 1-2 -- carma-simtask --memory-mib 2000 --solo-s 900 --sm-active 0.1
carma explain                                                             # 3: Site rule 'own_tasks < 1' (policy.require) excludes GPU 0
