cat > ds.json <<JSON
{"zero_optimization": {"stage": 3}}
JSON
A="x"; A="$A$A$(date)`hostname`"
for L in 512 1024; do deepspeed --include localhost:0,1 t.py --deepspeed ds.json --model m --lr 1 --max_length $L; done
bash inner.sh 'a b' "c\"d" && cd /tmp/x && accelerate launch --config_file=acc.yaml -m axolotl.cli.train c.yml
