mkdir -p /tmp/modules/greeting
cat >/tmp/modules/greeting/__init__.py <<'END'
from .words import word
def greet(name):
    return f"{word} {name}"
END
echo 'word = "hello"' >/tmp/modules/greeting/words.py
PYTHONPATH=/tmp/modules python3 - <<'END'
import asyncio, ctypes, decimal, greeting, hashlib, json, multiprocessing, os, pwd, sqlite3, ssl, subprocess, sys, tempfile, threading, zlib
print(sys.version, sys.path)
print(greeting.greet("world"), greeting.__file__, os.listdir("/tmp/modules/greeting/__pycache__") != [])
print(json.dumps({"a": [1, 2.5, None]}), decimal.Decimal(2).sqrt(), pwd.getpwnam("postgres"))
with tempfile.NamedTemporaryFile() as file:
    base = sqlite3.connect(file.name)
    base.execute("create table t (i)")
    base.executemany("insert into t values (?)", [(i,) for i in range(1000)])
    base.commit()
    print(base.execute("select sum(i) from t").fetchone())
with multiprocessing.Pool(3) as pool:
    print(pool.map(abs, range(-5, 5)))
async def main():
    process = await asyncio.create_subprocess_exec("sh", "-c", "echo child; exit 3", stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0], process.returncode
print(asyncio.run(main()), ssl.OPENSSL_VERSION, ctypes.CDLL("libc.so.6").abs(-3))
print(hashlib.sha256(zlib.compress(b"x" * 100000)).hexdigest(), subprocess.run(["id", "-un"], capture_output=True).stdout)
threads = [threading.Thread(target=lambda: None) for _ in range(20)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
END
python3 -m venv --without-pip /tmp/venv && /tmp/venv/bin/python -c 'import sys; print(sys.prefix)'
