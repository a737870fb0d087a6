import com.fasterxml.jackson.databind.ObjectMapper;
import kafka.log.UnifiedLog;
import kafka.log.UnifiedLog$;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.*;
import scala.Option;

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Supplier;

/**
 * The loader of Kafka 3.9: the last generation with a UnifiedLog in Scala, and of brokers that still know ZooKeeper.
 *
 *   load PARTITION_DIR [--clean BOOL] [--recovery-point N] [--log-start N] [--now MS] [--config k=v]... [--out DIR]
 *   serve
 * The answer has the log's start, end and recovery point; its files are in DIR.
 */
public class JudgeLoad {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = System.out;
    static final BrokerTopicStats STATS = new BrokerTopicStats(false); // thirty meters each

    public static void main(String[] argv) throws Exception {
        System.setOut(System.err);
        boolean ok = true;
        if (argv.length > 0 && argv[0].equals("serve")) {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line; (line = in.readLine()) != null; ) answer(JSON.readValue(line, String[].class));
        } else ok = answer(argv);
        System.exit(ok ? 0 : 1);
    }

    static boolean answer(String[] argv) throws IOException {
        Map<String, Object> answer = new LinkedHashMap<>();
        boolean ok = true;
        try {
            load(argv, answer);
        } catch (Throwable e) {
            ok = false;
            answer.clear();
            answer.put("error", e.getClass().getName());
            answer.put("message", String.valueOf(e.getMessage()));
        }
        OUT.println(JSON.writeValueAsString(answer));
        OUT.flush();
        return ok;
    }

    static void load(String[] argv, Map<String, Object> answer) throws Exception {
        if (argv.length < 2 || !argv[0].equals("load")) throw new IllegalArgumentException("only: load PARTITION_DIR");
        Map<String, String> options = new HashMap<>(), config = new HashMap<>();
        for (int i = 2; i < argv.length; i += 2) {
            String[] pair = argv[i + 1].split("=", 2);
            if (argv[i].equals("--config")) config.put(pair[0], pair[1]);
            else options.put(argv[i].substring(2), argv[i + 1]);
        }
        Path dir = copyOf(Path.of(argv[1]), options.get("out"));
        Later later = new Later();
        UnifiedLog log = UnifiedLog$.MODULE$.apply(dir.toFile(), new LogConfig(config), number(options, "log-start"), number(options, "recovery-point"),
            later, STATS, new Clock(number(options, "now")), 900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000,
            new LogDirFailureChannel(10), Boolean.parseBoolean(options.get("clean")), Option.empty(), true, new ConcurrentHashMap<>(), false,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        later.run();
        answer.put("log_start_offset", log.logStartOffset());
        answer.put("log_end_offset", log.logEndOffset());
        answer.put("recovery_point", log.recoveryPoint());
        log.close();
    }

    static long number(Map<String, String> options, String name) { return Long.parseLong(options.getOrDefault(name, "0")); }

    static Path copyOf(Path source, String out) throws IOException {
        Path root = out != null ? Files.createDirectories(Path.of(out)) : Files.createTempDirectory("judge");
        Path to = Files.createDirectory(root.resolve(source.toAbsolutePath().normalize().getFileName()));
        try (DirectoryStream<Path> all = Files.newDirectoryStream(source)) {
            for (Path p : all) if (Files.isRegularFile(p)) Files.copy(p, to.resolve(p.getFileName()), StandardCopyOption.COPY_ATTRIBUTES);
        }
        return to;
    }

    static class Clock implements Time {
        final long ms;
        Clock(long ms) { this.ms = ms; }
        public long milliseconds() { return ms; }
        public long hiResClockMs() { return ms; }
        public long nanoseconds() { return ms * 1_000_000; }
        public void sleep(long more) { throw new UnsupportedOperationException(); }
        public void waitObject(Object o, Supplier<Boolean> done, long deadline) { throw new UnsupportedOperationException(); }
        public org.apache.kafka.common.utils.Timer timer(long timeoutMs) { throw new UnsupportedOperationException(); }
    }

    static class Later implements Scheduler {
        final List<Runnable> due = new ArrayList<>();
        public void startup() { }
        public void shutdown() { }
        public void resizeThreadPool(int n) { }
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (delayMs <= 0 && periodMs < 0) due.add(task);
            return new Never();
        }
        void run() { while (!due.isEmpty()) due.remove(0).run(); }
    }

    static class Never extends FutureTask<Object> implements ScheduledFuture<Object> {
        Never() { super(() -> null); }
        public long getDelay(TimeUnit unit) { return Long.MAX_VALUE; }
        public int compareTo(Delayed o) { return 0; }
    }
}
