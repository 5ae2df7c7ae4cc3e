"""Redis, whose allocator is jemalloc, with more small values than memory: all are as they were set."""
import os, signal, socket, subprocess, tempfile

COUNT = 16000


def value(at):
    return b"%08d" % (at * 2654435761 % 100000000) * (300 + at % 200)


def ask(stream, *words):
    text = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(it), it) for it in words)
    stream.write(text)


def answer(stream):
    line = stream.readline()
    if line[:1] != b"$":
        return line[:-2]
    return stream.read(int(line[1:]) + 2)[:-2]


def connect(path, server):
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            return connection.makefile("rwb")
        except OSError:
            assert server.poll() is None, "the server has ended"
            connection.close()


with tempfile.TemporaryDirectory() as folder:
    path = folder + "/socket"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder],
        stdout=subprocess.DEVNULL)
    try:
        stream = connect(path, server)
        total = 0
        for first in range(0, COUNT, 100):
            for at in range(first, first + 100):
                ask(stream, b"SET", b"key%d" % at, value(at))
                total += len(value(at))
            stream.flush()
            assert all(answer(stream) == b"+OK" for _ in range(100))
        with open("/proc/%d/statm" % server.pid) as file:
            resident = int(file.read().split()[1]) * 4096
        assert "INTERLEAF_EXTEND" not in os.environ or resident < total, (resident, total)
        right = 0
        for first in range(0, COUNT, 100):
            for at in range(first, first + 100):
                ask(stream, b"GET", b"key%d" % at)
            stream.flush()
            right += sum(answer(stream) == value(at) for at in range(first, first + 100))
        print(right, "of", COUNT)
        # A forked child of the server writes all keys to a file.
        ask(stream, b"BGSAVE")
        stream.flush()
        print(answer(stream))
        while True:
            ask(stream, b"INFO", b"persistence")
            stream.flush()
            if b"rdb_bgsave_in_progress:0" in (state := answer(stream)):
                break
        print(b"rdb_last_bgsave_status:ok" in state)
        check = subprocess.run(["redis-check-rdb", folder + "/dump.rdb"], stdout=subprocess.PIPE)
        print(check.returncode, b"%d keys read" % COUNT in check.stdout)
    finally:
        server.send_signal(signal.SIGTERM)
        print(server.wait())
