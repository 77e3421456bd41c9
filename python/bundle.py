#!/usr/bin/env python3
"""Writes a package as a program of one file, to be copied to where people train.

    bundle.py PACKAGE OUTPUT.py

OUTPUT.py is run and imported as the package is: `python3 carma_summary.py …`, `import
carma_summary`. It holds the modules' sources as text and a loader for them. The same sources give
the same bytes. Modules of packages inside the package are not taken along.
"""

import ast
import os
import sys

PROGRAM = '''\
#!/usr/bin/env python3
"""{documentation}"""

# Written by bundle.py from the package {package}: change that, not this.

import importlib
import importlib.abc
import importlib.util
import os
import sys

SOURCES = {{}}
{sources}

class Loader(importlib.abc.ExecutionLoader):
    """Finds and loads the modules above; in a traceback they lie in this file as in a folder."""

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in SOURCES else None

    def is_package(self, name):
        return name == "{package}"

    def get_filename(self, name):
        file = "__init__" if self.is_package(name) else name.rpartition(".")[2]
        return os.path.join(os.path.abspath(__file__), file + ".py")

    def get_source(self, name):
        return SOURCES[name]


sys.meta_path.insert(0, Loader())
sys.modules.pop("{package}", None)  # this file itself, where it is imported: the package is meant
package = importlib.import_module("{package}")
if __name__ == "__main__":
    sys.exit(package.main())
'''


def sources_of(folder):
    """Text by the full name of a module; __main__.py is for the folder only."""
    package = os.path.basename(folder)
    sources = {}
    for file in sorted(os.listdir(folder)):
        module, ending = os.path.splitext(file)
        if ending == ".py" and module != "__main__":
            with open(os.path.join(folder, file), encoding="utf-8") as text:
                sources[package if module == "__init__" else f"{package}.{module}"] = text.read()
    return sources


def quoted(source):
    """A literal that still reads as the source; a source that holds ''' cannot be written so."""
    literal = f"r'''{source}'''"
    assert ast.literal_eval(literal) == source
    return literal


def bundle(folder):
    """The text of the program."""
    package = os.path.basename(folder)
    sources = sources_of(folder)
    return PROGRAM.format(
        package=package,
        documentation=ast.get_docstring(ast.parse(sources[package]), clean=False),
        sources="".join(
            f'SOURCES["{name}"] = {quoted(source)}\n' for name, source in sources.items()
        ),
    )


def main():
    folder, output = sys.argv[1:]
    with open(output, "w", encoding="utf-8") as file:
        file.write(bundle(os.path.abspath(folder)))
    os.chmod(output, 0o755)


if __name__ == "__main__":
    main()
