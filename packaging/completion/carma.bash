# bash completion of carma, installed as share/bash-completion/completions/carma.
# The words come from the installed program, so they cannot be out of date.
command -v carma >/dev/null && source <(carma completion bash)
