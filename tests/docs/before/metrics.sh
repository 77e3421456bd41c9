carmad --background
for wanted in exclusive collocated; do carma submit --gpu-mem 4G -- carma-simtask --memory-mib 3000 --solo-s 30 --sm-active 0.3; done
carma wait '@~1' @
mkdir reports
cd reports
carma report --name exclusive --json > exclusive.json
