# Measurements take long, so time runs faster here.
carma-simgpu create --shape 4xA100-40GB --time-scale 3000 --state /var/lib/simulated-server
