"""A test bed with accounting: slurmdbd with its own MariaDB, nodes that count GPU memory, and two accounts."""

import os
import shutil
import subprocess

import bed as slurm

# Debian 13 uses different names from Debian 12.
SQL = "/usr/share/mariadb/mariadb" if os.path.isdir("/usr/share/mariadb") else "/usr/share/mysql/mysql"
CARMA_GIB = 158  # GPU memory for tasks, per node
# Clients of slurmdbd reach munge at AccountingStoragePass; AuthInfo is only for Slurm's own daemons.
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge/sock
AccountingStorageTRES=gres/gpu,gres/carma
AccountingStorageEnforce=associations,limits,qos
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
PriorityDecayHalfLife=7-0
PriorityCalcPeriod=1
"""
SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass={password}
StorageLoc=accounts
"""


def missing():
    """Why such a bed is impossible here; empty if it is possible."""
    why = slurm.missing()
    without = [name for name in ("slurmdbd", "mariadbd", "sacctmgr") if not shutil.which(name)]
    return why or ("needs Debian's packages slurmdbd, mariadb-server" if without else "")


class AccountsBed(slurm.Bed):
    """A bed with accounting. accounts: {"account": ["user", …]}."""

    def __init__(self, programs, nodes=4, accounts=None):
        self.accounts = accounts or {}
        self._ports = slurm.free_ports(nodes + 3) + nodes + 1  # after the ports of Slurm's daemons
        self._password = os.urandom(12).hex()
        super().__init__(programs, nodes)

    def _configuration(self, text):
        text = text.replace("GresTypes=gpu\n", "GresTypes=gpu,carma\n")
        if ",carma:" not in text:
            text = text.replace(f"Gres=gpu:a100:{slurm.GPUS}", f"Gres=gpu:a100:{slurm.GPUS},carma:{CARMA_GIB}")
        return text + ACCOUNTING.format(folder=self.folder, port=self._ports)

    def _start_before_slurm(self):
        with open(self.path("etc/gres.conf"), "r+", encoding="utf-8") as file:
            if "Name=carma" not in file.read():
                file.writelines(f"NodeName={node} Name=carma Count={CARMA_GIB}\n" for node in self.node_names())
        self._start_database()
        with open(os.open(self.path("etc/slurmdbd.conf"), os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(SLURMDBD_CONF.format(folder=self.folder, port=self._ports, database_port=self._ports + 1, password=self._password))
        self._run("slurmdbd", "slurmdbd", "-D")
        slurm.until(lambda: self.ask("sacctmgr", "-n", "list", "tres"), "slurmdbd answers")
        self.manage("add", "cluster", "bed")
        self.manage("add", "account", ",".join(self.accounts))
        for account, users in self.accounts.items():  # one after the other: slurmdbd of 22.05 confuses their accounts
            self.manage("add", "user", ",".join(users), f"account={account}")

    def _start_database(self):
        os.makedirs(self.path("database/data"))
        options = ["--no-defaults", "--user=root", f"--datadir={self.path('database/data')}", "--innodb-log-file-size=64M",
                   "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve"]
        tables = "create database mysql;\nuse mysql;\n"
        for name in ("system_tables", "system_tables_data"):
            with open(f"{SQL}_{name}.sql", encoding="utf-8") as file:
                tables += file.read()
        subprocess.run(["mariadbd", *options, "--bootstrap"], input=tables, text=True, check=True, capture_output=True, timeout=slurm.LIMIT_S)
        with open(os.open(self.path("database/first.sql"), os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(f"create user slurm@'127.0.0.1' identified by '{self._password}';\ngrant all on accounts.* to slurm@'127.0.0.1';\n"
                       "create database accounts;\n")
        self._run("mariadbd", "mariadbd", *options, f"--socket={self.path('database/sock')}", "--bind-address=127.0.0.1",
                  f"--port={self._ports + 1}", f"--pid-file={self.path('database/pid')}", f"--init-file={self.path('database/first.sql')}")
        slurm.until(lambda: self.ask("mariadb-admin", "--no-defaults", f"--socket={self.path('database/sock')}", "ping"), "the database answers")

    def manage(self, *words):
        """Runs sacctmgr as root."""
        ran = subprocess.run(["sacctmgr", "-i", *words], env=self.environment, capture_output=True, text=True, timeout=slurm.LIMIT_S, check=False)
        if ran.returncode != 0:
            raise AssertionError(ran.stdout + ran.stderr)

    def booked(self, job, *columns):
        """The values that sacct shows for that job, without its steps; empty while it shows none."""
        lines = self.ask("sacct", "-n", "-P", "-X", "-D", "-a", "-j", str(job), "--format", ",".join(columns)).splitlines()
        return lines[-1].split("|") if lines else []
