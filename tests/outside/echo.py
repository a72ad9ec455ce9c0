# ICMP echo sockets: answers, identifiers and errors. Arguments: addresses of a peer that answers, IPv4 and IPv6.
import socket, struct, errno, sys

def show(*a): print(*a, flush=True)
def attempt(name, f):
    try: show(name, f())
    except OSError as e: show(name, errno.errorcode[e.errno])
def checksum(b):
    s = sum(struct.unpack(">%dH" % (len(b) // 2), b))
    while s > 0xffff: s = (s & 0xffff) + (s >> 16)
    return s
for family, proto, kind, peer in ((socket.AF_INET, 1, 8, sys.argv[1]), (socket.AF_INET6, 58, 128, sys.argv[2])):
    def new(): return socket.socket(family, socket.SOCK_DGRAM, proto)
    any = "0.0.0.0" if family == socket.AF_INET else "::"
    def request(seq, data=b"data of an echo."): return struct.pack(">BBHHH", kind, 0, 0, 77, seq) + data
    s = new(); s.settimeout(2)
    show(s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE), s.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL))
    attempt("short", lambda: s.sendto(b"1234567", (peer, 0)))
    attempt("answer", lambda: s.sendto(struct.pack(">BBHHH", kind + 1, 0, 0, 0, 0), (peer, 0)))
    attempt("code", lambda: s.sendto(struct.pack(">BBHHH", kind, 1, 0, 0, 0), (peer, 0)))
    attempt("nobody", lambda: s.send(request(1)))
    attempt("oob", lambda: s.sendto(request(1), socket.MSG_OOB, (peer, 0)))
    attempt("large", lambda: s.sendto(bytes(70000), (peer, 0)))
    attempt("peer", lambda: s.getpeername())
    attempt("send", lambda: s.sendto(request(1), (peer, 9)))
    own = s.getsockname()
    show("bound", own[0], own[1] != 0)
    answer, where = s.recvfrom(2000)
    t, c, check, ident, seq = struct.unpack(">BBHHH", answer[:8])
    show(t, c, ident == own[1], seq, answer[8:], where[0] == peer, where[1:])
    if family == socket.AF_INET: show("sum", checksum(answer) == 0xffff)
    for size in (0, 1, 2, 33, 1400, 30000):
        s.sendto(request(size, b"x" * size), (peer, 0))
        got = s.recv(65536)
        show(size, len(got), got[8:] == b"x" * size)
    b = new(); b.settimeout(2)
    attempt("bind", lambda: b.bind((any, 4321)))
    show(b.getsockname()[:2])
    attempt("again", lambda: b.bind((any, 4322)))
    c = new()
    attempt("taken", lambda: c.bind((any, 4321)))
    attempt("low", lambda: c.bind((any, 7)))
    c.close()
    attempt("foreign", lambda: new().bind(("9.9.9.9" if family == socket.AF_INET else "2001:db8::9", 0)))
    attempt("connect", lambda: b.connect((peer, 5)))
    attempt("peer", lambda: b.getpeername()[1])
    attempt("send", lambda: b.send(request(9)))
    show(b.recv(2000)[4:])
    b.setblocking(False)
    attempt("empty", lambda: b.recv(2000))
    s.setblocking(False)
    attempt("others", lambda: s.recv(2000))
    attempt("level", lambda: b.setsockopt(17, 1, 1))
v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, 58)
attempt("mapped", lambda: v6.sendto(struct.pack(">BBHHH", 128, 0, 0, 0, 0), ("::ffff:127.0.0.1", 0)))
attempt("other", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 58))

