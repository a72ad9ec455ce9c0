"""Uses 200 MB in one way, gives them back, prints a line, and waits for its standard input to end."""

import mmap
import os
import sys

SIZE = 200 << 20
PAGE = 4096


def touched(flags):
    memory = mmap.mmap(-1, SIZE, flags=flags | mmap.MAP_ANONYMOUS)
    for offset in range(0, SIZE, PAGE):
        memory[offset] = 1
    return memory


def mapping():
    touched(mmap.MAP_PRIVATE).close()


def shared():
    touched(mmap.MAP_SHARED).close()


def objects():
    """Many small objects."""
    many = [bytes(1000) for _ in range(SIZE // 1000)]
    many.clear()


def child():
    """A process that ends."""
    process = os.fork()
    if process == 0:
        mapping_stays = touched(mmap.MAP_PRIVATE)
        os._exit(0 if mapping_stays[0] == 1 else 1)
    _, status = os.waitpid(process, 0)
    assert status == 0


def file():
    """A file of the private layer."""
    with open("/tmp/much", "wb") as much:
        for _ in range(SIZE >> 20):
            much.write(b"x" * (1 << 20))
    os.unlink("/tmp/much")


{"mapping": mapping, "shared": shared, "objects": objects, "child": child, "file": file}[sys.argv[1]]()
print("given back", flush=True)
sys.stdin.read()
