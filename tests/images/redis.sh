set -e
id -un
redis() { redis-cli -s /tmp/redis.socket "$@"; }
start() {
    redis-server --port 0 --unixsocket /tmp/redis.socket --dir /tmp --appendonly yes --daemonize yes --pidfile /tmp/redis.pid >/dev/null
    while [ ! -S /tmp/redis.socket ] || ! redis ping >/dev/null 2>&1; do sleep 0.02; done
}
start
redis set a 1
redis incrby a 41
redis eval 'for i = 1, 1000 do redis.call("rpush", "list", i) end return redis.call("llen", "list")' 0
redis save
redis shutdown
while [ -e /tmp/redis.pid ]; do sleep 0.02; done
start
redis mget a none
redis lrange list -2 -1
redis shutdown nosave
redis-server --version
