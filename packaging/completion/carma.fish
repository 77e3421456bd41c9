# fish completion of carma, installed as share/fish/vendor_completions.d/carma.fish.
# The words come from the installed program, so they cannot be out of date.
command -q carma; and carma completion fish | source
