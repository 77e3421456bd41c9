"""bundle.py turns a package into one file, which runs and can be imported like the package."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.dirname(HERE)
PACKAGES = ("carma_summary", "carma_collect")


class Bundles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for package in PACKAGES:
            self.bundle(package, self.path(package))

    def path(self, package):
        return os.path.join(self.folder, f"{package}.py")

    def bundle(self, package, output):
        self.run_python(os.path.join(PYTHON, "bundle.py"), os.path.join(PYTHON, package), output)

    def run_python(self, *arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={name: os.environ[name] for name in os.environ if name != "PYTHONPATH"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_the_same_sources_give_the_same_bytes(self):
        again = os.path.join(self.folder, "again.py")
        for package in PACKAGES:
            self.bundle(package, again)
            with open(again, "rb") as second, open(self.path(package), "rb") as first:
                self.assertEqual(first.read(), second.read(), package)

    def test_a_bundle_runs_as_the_folder_does(self):
        model = (os.path.join(HERE, "models.py") + ":conv_net", "--input", "3,8,8")
        for package, arguments in (("carma_summary", model), ("carma_collect", ["plan"])):
            said = self.run_python(self.path(package), *arguments)
            self.assertEqual(said, self.run_python(os.path.join(PYTHON, package), *arguments))

    def test_a_bundle_trains_in_a_process_of_its_own(self):
        dry = ("--device", "cpu", "--scale", "0.02", "--count", "1", "--measure", "0.05")
        said = self.run_python(self.path("carma_collect"), "run", "runs", *dry)
        self.assertIn("censored: dry", said)

    def test_a_bundle_is_imported(self):
        program = (
            "import torch; import carma_summary as c;"
            "print(c.write('model.json', torch.nn.Linear(8, 4), torch.zeros(2, 8)), c.__file__)"
        )
        said = self.run_python("-c", program)
        self.assertEqual(said, f"True {os.path.join(self.path('carma_summary'), '__init__.py')}\n")


if __name__ == "__main__":
    unittest.main()
