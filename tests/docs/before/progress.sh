carmad --background
printf 'Epoch 1/3\n  5%%|5 | 5/100 [00:01<00:19, 5.0it/s, loss=0.3]\n' > train.log
