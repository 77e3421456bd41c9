#!/usr/bin/env python3
"""A stand-in for a training script: takes any options, prints that it trains, and succeeds."""

import sys

for epoch in range(1, 4):
    print(f"epoch {epoch}/3 loss {1 / epoch:.3f}", *sys.argv[1:])
