"""Stores to a shared mapping of a granted file, removes the file, then unmaps it; waits for a line after each step."""

import mmap
import os

SIZE = 32 << 20
PATH = "/granted/big"

with open(PATH, "w+b") as file:
    file.truncate(SIZE)
    memory = mmap.mmap(file.fileno(), SIZE)
for offset in range(0, SIZE, 4096):
    memory[offset] = 1
os.unlink(PATH)
print("removed", flush=True)
input()
# Nobody took away what is still mapped.
assert all(memory[offset] == 1 for offset in range(0, SIZE, 4096))
memory.close()
print("unmapped", flush=True)
input()
