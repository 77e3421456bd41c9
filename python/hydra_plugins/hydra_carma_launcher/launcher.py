"""A launcher like Hydra's BasicLauncher that runs each job in a task of carma.Executor."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, filter_overrides, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

log = logging.getLogger(__name__)


@dataclass
class CarmaLauncherConf:
    """hydra.launcher: options of carma.Client.submit()."""

    _target_: str = "hydra_plugins.hydra_carma_launcher.launcher.CarmaLauncher"
    folder: str = "${hydra.sweep.dir}/.carma"
    gpus: int = 1
    memory: Optional[str] = None
    time: Optional[str] = None
    exclusive: bool = False
    more: Dict[str, Any] = field(default_factory=dict)  # priority, qos, retries …


ConfigStore.instance().store(group="hydra/launcher", name="carma", node=CarmaLauncherConf, provider="carma")


def run_in_task(hydra_context: HydraContext, name: str, config: DictConfig, singletons: Any) -> JobReturn:
    """Runs one job. The function behind @hydra.main has the name of its wrapper, so it is looked up here instead of pickled."""
    Singleton.set_state(singletons)
    setup_globals()
    HydraConfig.instance().set_config(config)
    function = getattr(sys.modules["__main__"], name)
    return run_job(hydra_context=hydra_context, task_function=getattr(function, "__wrapped__", function), config=config,
                   job_dir_key="hydra.sweep.dir", job_subdir_key="hydra.sweep.subdir")


class CarmaLauncher(Launcher):
    """Submits all jobs of a sweep at once and returns their results in order."""

    def __init__(self, folder: str, more: Optional[Dict[str, Any]] = None, **options: Any) -> None:
        self.folder = folder
        self.options = {**options, **(more or {})}
        self.config: Optional[DictConfig] = None
        self.task_function: Optional[TaskFunction] = None
        self.hydra_context: Optional[HydraContext] = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config
        self.hydra_context = hydra_context
        self.task_function = task_function

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        import carma  # pylint: disable=import-outside-toplevel

        assert self.config is not None and self.hydra_context is not None and self.task_function is not None
        setup_globals()
        sweep_dir = Path(str(self.config.hydra.sweep.dir))
        sweep_dir.mkdir(parents=True, exist_ok=True)
        futures: List[Any] = []
        with carma.Executor(os.path.abspath(self.folder), **self.options) as executor:
            for number, overrides in enumerate(job_overrides, initial_job_idx):
                config = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
                with open_dict(config):
                    config.hydra.job.id = config.hydra.job.num = number
                    config.hydra.sweep.dir = str(sweep_dir.resolve())
                futures.append(executor.submit(run_in_task, self.hydra_context, self.task_function.__name__, config,
                                               Singleton.get_state()))
                log.info("\t#%d: task %d: %s", number, futures[-1].task.id, " ".join(filter_overrides(overrides)))
            return [future.result() for future in futures]
