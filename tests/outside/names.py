"""What sockets of loopback addresses tell, with the port numbers left out: the same in a pod with the host's network."""
import os
import select
import socket
import threading

INET, INET6 = socket.AF_INET, socket.AF_INET6
STREAM, DGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
ANY = {'0.0.0.0': '127.0.0.1', '::': '::1'}


def new(family, kind, *options):
    s = socket.socket(family, kind)
    s.settimeout(10)
    for option in options:
        s.setsockopt(socket.SOL_SOCKET, option, 1)
    return s


def listener(family, address, *options):
    s = new(family, STREAM, *options)
    s.bind((address, 0))
    s.listen()
    return s


def stream(family, address):
    s = listener(family, address)
    name = s.getsockname()
    c = new(family, STREAM)
    c.connect((ANY.get(address, address), name[1]))
    a, peer = s.accept()
    same = c.getsockname() == peer == a.getpeername() and c.getpeername() == a.getsockname()
    c.sendall(b'x' * 100000)
    c.shutdown(socket.SHUT_WR)
    got = sum(iter(lambda: len(a.recv(65536)), 0))
    a.sendall(b'y')
    return name[1] > 0, name[0], same, peer[0], got, c.recv(5)


def both():
    s = listener(INET6, '::')
    c = socket.create_connection(('127.0.0.1', s.getsockname()[1]), 10)
    a, peer = s.accept()
    return peer[0], a.getsockname()[0], c.getsockname()[0]


def datagrams(family, address):
    s, c, other = new(family, DGRAM), new(family, DGRAM), new(family, DGRAM)
    s.bind((address, 0))
    to = (ANY.get(address, address), s.getsockname()[1])
    c.sendto(b'one', to)
    data, peer = s.recvfrom(9)
    other.connect(to)
    other.send(b'two')
    more, second = s.recvfrom(9)
    s.sendto(b'back', peer)
    s.sendto(b'forth', second)
    return (data, more, peer[1] == c.getsockname()[1], second == other.getsockname(), c.recvfrom(9)[0], other.recv(9),
            c.getsockname()[0], other.getsockname()[0])


def taken(kind):
    s = new(INET, kind)
    s.bind(('127.0.0.1', 0))
    if kind == STREAM:
        s.listen()
    new(INET, kind).bind(s.getsockname())


def elsewhere(kind):
    new(INET, kind).bind(('192.0.2.77', 0))


def chosen():
    s, c = listener(INET, '127.0.0.1'), new(INET, STREAM)
    c.bind(('127.0.0.2', 0))
    name = c.getsockname()
    c.connect(s.getsockname())
    return s.accept()[1] == name == c.getsockname(), name[0]


def again():
    s = listener(INET, '127.0.0.1', socket.SO_REUSEADDR)
    name = s.getsockname()
    c = socket.create_connection(name, 10)
    a, _ = s.accept()
    s.close()
    s = new(INET, STREAM, socket.SO_REUSEADDR)
    s.bind(name)
    s.listen()
    a.close()
    return c.recv(1)


def group():
    one = listener(INET, '127.0.0.1', socket.SO_REUSEPORT)
    other = new(INET, STREAM, socket.SO_REUSEPORT)
    other.bind(one.getsockname())
    other.listen()


def closed():
    s = listener(INET, '127.0.0.1')
    name = s.getsockname()
    s.close()
    socket.create_connection(name, 10)


def nobody():
    c = new(INET, DGRAM)
    c.connect(('127.0.0.1', 1))
    c.send(b'x')
    c.recv(1)


def shut():
    s = listener(INET, '127.0.0.1')
    s.shutdown(socket.SHUT_RDWR)
    s.listen()
    c = socket.create_connection(s.getsockname(), 10)
    return s.accept()[1] == c.getsockname()


def processes():
    s = listener(INET, '127.0.0.1')
    child = os.fork()
    if child == 0:
        a, _ = s.accept()
        a.sendall(a.recv(9)[::-1])
        os._exit(0)
    c = socket.create_connection(s.getsockname(), 10)
    c.sendall(b'abc')
    return c.recv(9), os.waitpid(child, 0)[1]


def waiting():
    s, c = listener(INET, '127.0.0.1'), new(INET, STREAM)
    c.setblocking(False)
    result = c.connect_ex(s.getsockname())
    return result, select.select([], [c], [], 10)[1] == [c], select.select([s], [], [], 10)[0] == [s]


def clients():
    s, sent = listener(INET6, '::1'), []
    def serve():
        for _ in range(40):
            a, _ = s.accept()
            a.sendall(a.recv(100))
            a.close()
    def ask(i):
        c = socket.create_connection(s.getsockname()[:2], 10)
        c.sendall(b'%d' % i)
        sent.append(int(c.recv(100)))
    threads = [threading.Thread(target=serve)] + [threading.Thread(target=ask, args=(i,)) for i in range(40)]
    [t.start() for t in threads], [t.join() for t in threads]
    return sorted(sent) == list(range(40))


CASES = {
    'stream': lambda: [stream(f, a) for f, a in ((INET, '127.0.0.1'), (INET, '0.0.0.0'), (INET6, '::1'), (INET6, '::'))],
    'both': both,
    'datagrams': lambda: [datagrams(f, a) for f, a in ((INET, '127.0.0.1'), (INET, '0.0.0.0'), (INET6, '::1'), (INET6, '::'))],
    'taken tcp': lambda: taken(STREAM),
    'taken udp': lambda: taken(DGRAM),
    'elsewhere tcp': lambda: elsewhere(STREAM),
    'elsewhere udp': lambda: elsewhere(DGRAM),
    'chosen': chosen,
    'again': again,
    'group': group,
    'closed': closed,
    'nobody': nobody,
    'shut': shut,
    'processes': processes,
    'waiting': waiting,
    'clients': clients,
}
for name, case in CASES.items():
    try:
        print(name, case(), flush=True)
    except OSError as error:
        print(name, error, flush=True)
