# A class that the compiler of the system makes, with threads, streams, files and a process.
set -e
mkdir /tmp/java && cd /tmp/java
cat >Hello.java <<'END'
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;

public class Hello {
    record Pair(String name, int number) {}

    public static void main(String[] words) throws Exception {
        System.out.println(String.join(" ", words) + " " + System.getProperty("user.name") + " " + System.getProperty("java.version"));
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> sums = new ArrayList<>();
        for (int part = 0; part < 8; part++) {
            final long from = part * 100_000L;
            sums.add(pool.submit(() -> LongStream.range(from, from + 100_000).sum()));
        }
        long sum = 0;
        for (Future<Long> part : sums) sum += part.get();
        pool.shutdown();
        System.out.println(sum + " " + IntStream.range(0, 1000).parallel().map(i -> i * i % 7).sum());
        Map<String, Integer> counts = new ConcurrentSkipListMap<>();
        Stream.of("b", "a", "b").forEach(word -> counts.merge(word, 1, Integer::sum));
        System.out.println(counts + " " + new Pair("x", 3));
        Path file = Files.writeString(Path.of("file"), "one\ntwo\n");
        System.out.println(Files.readAllLines(file) + " " + Files.size(file) + " " + Files.getOwner(file));
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(new byte[1 << 20]);
        System.out.println(HexFormat.of().formatHex(digest));
        StringBuilder garbage = new StringBuilder();
        for (int i = 0; i < 200; i++) garbage = new StringBuilder().append(new char[100_000]);
        System.out.println(garbage.length());
        Process child = new ProcessBuilder("sh", "-c", "read line; echo child $line; exit 3").start();
        child.getOutputStream().write("asked\n".getBytes());
        child.getOutputStream().close();
        System.out.print(new String(child.getInputStream().readAllBytes()));
        System.out.println(child.waitFor());
        try {
            Object none = null;
            none.toString();
        } catch (NullPointerException expected) {
            System.out.println(expected.getClass());
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("end")));
        System.exit(5);
    }
}
END
java -version 2>&1
ecj -17 -proc:none -d . Hello.java
for options in "" -Xint -XX:+UseParallelGC; do
    code=0
    java $options -Xmx128m -cp . Hello a b || code=$?
    echo "exit $code"
done
