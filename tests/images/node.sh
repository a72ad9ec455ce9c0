# Node's event loop, threads of libuv, workers, processes, sockets and packages.
set -e
node --version
node -e 'console.log([1, 2, 3].map(n => n ** 2), process.platform, process.arch, os.userInfo().username)'
mkdir -p /tmp/node/node_modules/greeting && cd /tmp/node
echo '{ "name": "greeting", "main": "main.js" }' >node_modules/greeting/package.json
echo 'exports.greet = name => `hello ${name}`' >node_modules/greeting/main.js
cat >main.mjs <<'END'
import fs from "node:fs/promises";
import http from "node:http";
import zlib from "node:zlib";
import { createHash } from "node:crypto";
import { spawn } from "node:child_process";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import greeting from "greeting";

console.log(greeting.greet("world"));
await fs.writeFile("file", "x".repeat(300000));
const sizes = await Promise.all([..."abcdefgh"].map(async name => {
    await fs.copyFile("file", name);
    return (await fs.stat(name)).size;
}));
console.log(sizes.reduce((sum, size) => sum + size), (await fs.readdir(".")).sort().join(" "));
console.log(createHash("sha256").update(zlib.gunzipSync(zlib.gzipSync(await fs.readFile("a")))).digest("hex"));
const worker = new Worker("require('node:worker_threads').parentPort.postMessage(require('node:worker_threads').workerData * 2)", { eval: true, workerData: 21 });
console.log(await new Promise(resolve => worker.on("message", resolve)));
const server = http.createServer((request, response) => response.end(`path ${request.url}`)).listen(0, "127.0.0.1");
await new Promise(resolve => server.on("listening", resolve));
const answers = await Promise.all([1, 2, 3].map(n => fetch(`http://127.0.0.1:${server.address().port}/${n}`).then(answer => answer.text())));
console.log(answers);
server.closeAllConnections();
server.close();
const child = spawn("sh", ["-c", "read line; echo child $line; exit 3"]);
child.stdin.end("asked\n");
child.stdout.on("data", data => process.stdout.write(data));
console.log(await new Promise(resolve => child.on("close", resolve)));
process.on("exit", code => console.log("end", code));
process.exitCode = 5;
END
code=0
node main.mjs || code=$?
echo "exit $code"
