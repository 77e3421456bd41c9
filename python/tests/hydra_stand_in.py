"""The part of hydra-core 1.3 and omegaconf that the launcher uses, for tests where Hydra is not installed."""

import contextlib
import functools
import os
import sys
import types


class DictConfig(types.SimpleNamespace):
    """Nested values, read as attributes."""


class Launcher:
    """The base class of launchers."""


class ConfigStore:
    """Keeps what plug-ins register."""

    stored = {}

    @classmethod
    def instance(cls):
        """The only instance."""
        return cls()

    def store(self, *, group, name, node, provider):
        """Registers a node by its group and name."""
        del provider
        self.stored[(group, name)] = node


class Singleton(type):
    """Its state travels with each job."""

    state = {}

    @classmethod
    def get_state(mcs):
        """The state to send to another process."""
        return {"travelled": True}

    @classmethod
    def set_state(mcs, state):
        """Takes the state from another process."""
        mcs.state = state


class HydraConfig:
    """The configuration in force."""

    config = None

    @classmethod
    def instance(cls):
        """The only instance."""
        return cls

    @classmethod
    def set_config(cls, config):
        """Sets the configuration of the job that runs here."""
        cls.config = config


class JobReturn(types.SimpleNamespace):
    """The result of a job."""


class ConfigLoader:
    """Understands only overrides of the form `key=value`."""

    @staticmethod
    def load_sweep_config(config, overrides):
        """The sweep's configuration with the overrides of one job."""
        job = types.SimpleNamespace(id=None, num=None)
        hydra = DictConfig(sweep=DictConfig(dir=config.hydra.sweep.dir), job=job)
        return DictConfig(hydra=hydra, **dict(word.split("=") for word in overrides))


def run_job(*, hydra_context, task_function, config, job_dir_key, job_subdir_key):
    """Runs the job in a folder of its own."""
    assert (job_dir_key, job_subdir_key) == ("hydra.sweep.dir", "hydra.sweep.subdir")
    assert hydra_context.config_loader and Singleton.state["travelled"] and HydraConfig.config is config
    folder = os.path.join(config.hydra.sweep.dir, str(config.hydra.job.num))
    os.makedirs(folder)
    os.chdir(folder)
    return JobReturn(return_value=task_function(config), working_dir=folder)


def main(task_function):
    """@hydra.main: `python3 train.py FOLDER lr=1 lr=2` is a sweep of these jobs."""

    @functools.wraps(task_function)
    def decorated():
        from hydra_plugins.hydra_carma_launcher import launcher  # pylint: disable=import-outside-toplevel

        folder, *jobs = sys.argv[1:]
        chosen = launcher.CarmaLauncher(folder=os.path.join(folder, ".carma"), gpus=1, memory="1G", more={"retries": 1})
        context = types.SimpleNamespace(config_loader=ConfigLoader())
        chosen.setup(hydra_context=context, task_function=task_function,
                     config=DictConfig(hydra=DictConfig(sweep=DictConfig(dir=os.path.join(folder, "sweep")))))
        for returned in chosen.launch([[job] for job in jobs], 3):
            print(returned.return_value, os.path.basename(returned.working_dir))

    return decorated


def install():
    """Registers all of it as the modules that `import hydra` finds."""
    here = sys.modules[__name__]
    names = {"hydra": ["main"], "hydra.core": [], "hydra.plugins": [], "hydra.core.config_store": ["ConfigStore"],
             "hydra.core.hydra_config": ["HydraConfig"], "hydra.core.singleton": ["Singleton"],
             "hydra.core.utils": ["JobReturn", "run_job"], "hydra.plugins.launcher": ["Launcher"], "hydra.types": [],
             "omegaconf": ["DictConfig"]}
    for name, members in names.items():
        module = sys.modules[name] = types.ModuleType(name)
        for member in members:
            setattr(module, member, getattr(here, member))
    sys.modules["hydra.core.utils"].filter_overrides = list
    sys.modules["hydra.core.utils"].setup_globals = lambda: None
    sys.modules["hydra.types"].HydraContext = sys.modules["hydra.types"].TaskFunction = object
    sys.modules["omegaconf"].open_dict = contextlib.nullcontext
