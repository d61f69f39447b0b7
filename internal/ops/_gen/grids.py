"""Writes ../grids.bin: the vectors of numbers from which GGUF's formats IQ2 and IQ3 are made, as the package gguf has them.

    pip install gguf==0.19.0
    python grids.py > ../grids.bin

The file holds 256 vectors of IQ2_XXS, 512 of IQ2_XS, 1,024 of IQ2_S and 256 of IQ3_XXS, each in 16 bits. A vector of IQ2 has eight
numbers of 2 bits, a vector of IQ3 has four of 4 bits, the first in the lowest bits. They index the levels in ../packed_rows.go.
"""

import sys

from gguf import quants

for kind in (quants.IQ2_XXS, quants.IQ2_XS, quants.IQ2_S, quants.IQ3_XXS):
    sys.stdout.buffer.write(bytes.fromhex(kind.grid_hex.decode()))
