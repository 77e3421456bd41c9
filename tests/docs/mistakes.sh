# Common mistakes and the one-line answer to each, which states where the mistake is, what was expected or meant, and what to do.
# mistakes_test.py runs them.
carma submit                                                     # -> nothing to run: give a script, -- COMMAND, or --wrap
carma submit --tiem 2h -- true                                   # -> unknown option --tiem, did you mean --time? (see carma submit --help)
carma submit --gpus two -- true                                  # -> --gpus: expected a number of GPUs from 0 to 1024, not 'two'
carma submit --gpu-mem lots -- true                              # -> --gpu-mem: expected a memory size per GPU such as 800M or 12G, not 'lots'
carma submit --gpu-mem 12 GB -- true                             # -> no program 'GB'; write a value and its unit as one word, such as 2GB
carma submit --time 2 hours -- true                              # -> write a value and its unit as one word, such as 2hours
carma submit --time tomorrow -- true                             # -> --time: expected a time span such as 90s, 15m, 12h
carma submit --begin yesterday -- true                           # -> --begin: expected a time like 14:05
carma submit --priority high -- true                             # -> --priority: expected a number from
carma submit --sm-share 150% -- true                             # -> --sm-share: expected a share like 30% or 0.3, not '150%'
carma submit --array 5-1 -- true                                 # -> --array: expected indices like '0-15', '1,3,7-9' or '0-15:4%2', not '5-1'
carma submit --array 1,2,x -- true                               # -> not 'x'
carma submit --dependency 12 -- true                             # -> --dependency: expected afterok:ID[:ID…], afterany:ID or afternotok:ID, not '12'
carma submit --dependency afterok:999 -- true                    # -> cannot depend on task 999: no such task (see carma list --all)
carma submit --notify tomail -- true                             # -> --notify: expected me, an email address
carma submit --account vision -- true                            # -> may not use account 'vision' (fair.accounts)
carma submit --param n=1..6 -- true                              # -> --param n: expected values separated by commas, such as 'n=1,2,3', not the range '1..6' (--array takes ranges)
carma submit --param lr=0.1,0.2 -- python3 train.py --lr {ls}    # -> {ls} is not a sweep parameter, did you mean lr?
carma submit --param lr 0.1 -- true                              # -> --param: expected NAME=VALUE,VALUE… such as lr=0.1,0.01
carma submit --param-file nosuch.csv -- true                     # -> nosuch.csv: No such file or directory
carma submit --conda-env nosuch -- true                          # -> conda environment 'nosuch' not found; searched
carma submit --chdir /nosuch -- true                             # -> working directory /nosuch: no such folder
carma submit trian.sh                                            # -> trian.sh: No such file or directory, did you mean train.sh?
carma submit -- pyton3 train.py                                  # -> no program 'pyton3', did you mean python3?
carma submit -- python3 trian.py                                 # -> no file 'trian.py' for python3, did you mean train.py?
carma submit -- ./trian.sh                                       # -> no program './trian.sh', did you mean train.sh?
carma submit .                                                   # -> no program '.'; that is a folder
carma submit --gpu-type H200 -- true                             # -> there is no GPU of type H200 here; this server has 4x
carma submit --gpu 7 -- true                                     # -> there is no GPU 7 here: this server has 4, numbered from 0
carma submit --gpus 9 -- true                                    # -> the task asks for 9 GPUs, but this server has 4
carma submit --gpu-mem 100G -- true                              # -> 100.0G does not fit on any GPU that the task may use; the largest has 39.6G
carma submit --cpus 1000 -- true                                 # -> the task asks for 1000 CPUs, but tasks on this server can use at most 32
carma submit --mem 9T -- true                                    # -> the task asks for 9216.0G of host memory, but tasks on this server can use at most 256.0G
printf '#!/bin/bash\n#SBATCH --nodes=4\n' > a.sh; carma submit a.sh          # -> a.sh:2: --nodes: this is a single server; expected 1, not 4
printf '#!/bin/bash\n#CARMA --tiem 4\n' > a.sh; carma submit a.sh            # -> a.sh:2: unknown option --tiem, did you mean --time?
printf '#!/bin/bash\n#SBATCH -G1 -o x --tiem=4\n' > a.sh; carma submit --check a.sh 2>&1 >/dev/null    # -> a.sh:2: #SBATCH --tiem: unknown option, ignored, did you mean --time?
printf '#!/bin/bash\n#SBATCH -o x --gres=gpu:two\n' > a.sh; carma submit a.sh     # -> there is no GPU of type two here
printf 'echo hi\n' > a.sh; carma submit a.sh                     # -> a.sh:1: expected an interpreter line such as #!/bin/bash
carma sumbit -- true                                             # -> no verb 'sumbit', did you mean submit?
carma lst                                                        # -> no verb 'lst', did you mean list?
carma list -t oomm                                               # -> no task state 'oomm'
carma list -o nmae                                               # -> no column 'nmae', did you mean name?
carma list --limit all                                           # -> --limit: expected a number from 1 to 10000000, not 'all'
carma show 999                                                   # -> no task 999 (carma list --all shows all tasks)
carma show resnet                                                # -> task 'resnet': expected a number, a range such as 40-45, 40_3, @ or @~N
carma history 999                                                # -> no task 999 (carma list
carma logs 999                                                   # -> no task 999 (carma list
carma cancel                                                     # -> cancel: expected tasks, or --all, --name, --state, --array or --user
carma cancel --name a --name b                                   # -> --name: given more than once
carma cancel --all                                               # -> cancel: no waiting or running task matches; nothing was changed
carma priority 1                                                 # -> expected tasks, for example: carma priority -10 42
carma drain                                                      # -> expected gpus, for example: carma drain 0,2
carma drain 9                                                    # -> GPU '9': expected a UUID or an index below 4
carma reserve --gpus 1                                           # -> reserve: expected --for USER, --account or --class
carma reserve --gpus 9 --from +1h --for-time 1h --for root       # -> There is no GPU 9 here
carma reserve --gpus 1 --from +1h --for-time 1h --for nosuch 2>&1 >/dev/null    # -> this machine has no user 'nosuch'
carma list --user nosuch 2>&1 >/dev/null                         # -> this machine has no user 'nosuch'
carma report --since 1h --until 2h                               # -> --until: expected a time after --since
carma usage --since 1h --until 2h                                # -> --until: expected a time after --since
carmad --simulate 4xB100                                         # -> unknown GPU type 'B100', expected one of A100-40GB
carma usage --since noon                                         # -> --since: expected a date like "2026-03-01 14:05" or a span like 2h
carma estimate nosuch.json                                       # -> nosuch.json: No such file or directory
carma simulate --policy nosuch                                   # -> --policy: mapper: expected "auto", "exclusive"
carma simulate --policy magm,sm_cap=high                         # -> --policy: sm_cap: expected fraction above 0 and at most 1
carma config show nosuch.key                                     # -> 'nosuch.key': expected a configuration key, such as policy.mapper
carma completion tcsh                                            # -> shell 'tcsh': expected bash, zsh or fish
carma token                                                      # -> expected one of
carma slurm chek                                                 # -> no 'slurm chek', did you mean check?
carma demo --speed fast                                          # -> --speed: expected a number from 1 to 10000, not 'fast'
printf '[policy]\nmaper = "magm"\nsm_cap = 80\n' > bad.toml; carma config check --config bad.toml    # -> bad.toml:2: policy.maper: no such key, did you mean policy.mapper?; bad.toml:3:
carmad --backgruond                                              # -> unknown option --backgruond, did you mean --background? (see carmad --help)
carma --socket /nosuch list                                      # -> carmad is not running at /nosuch (start it with 'carmad --background --socket /nosuch')
carma reserve --gpus 1 --for ann --from now --for-time 400d      # -> --for-time: expected a duration from 1m to 366d
carma token create laptop --expires 0                            # -> --expires: expected 1m to 366d
carma cancel --array 999                                         # -> no task 999
carma submit 'python3 train.py'                                  # -> remove the quotes, or use --wrap
