"""Runs Hydra's jobs as CARMA tasks: `python3 train.py -m hydra/launcher=carma lr=0.1,0.01`. Needs hydra-core 1.3."""
