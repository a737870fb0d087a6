import java.io.*;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.nio.file.attribute.FileTime;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;

/**
 * The verb `sequence` for the logs of Kafka 0.10 to 3.9, from one source file: no Kafka class is named at compile time, because packages,
 * constructors and methods changed with almost every release. A parameter gets its argument by its type. Sequences are compared with
 * 0.10.0.1, 0.10.2.2, 0.11.0.3, 1.1.1, 2.3.1, 2.4.1, 2.8.2 and 3.9.1.
 *
 *   sequence SPEC.json                                plays requests, timers, stops and starts on one Log or UnifiedLog
 *   serve
 *
 * SPEC is that of Judge.java, with the config on its first line and one step on each other line.
 */
public class JudgeSequence {
    static final Pattern FIELD = Pattern.compile("\"([^\"]+)\": *(?:\"([^\"]*)\"|(-?\\d+))");

    public static void main(String[] argv) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        boolean ok = true;
        if (argv.length > 0 && argv[0].equals("serve")) {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line; (line = in.readLine()) != null; ) { // one JSON array of plain strings; no JSON library in the oldest jars
                List<String> args = new ArrayList<>();
                Matcher m = Pattern.compile("\"([^\"]*)\"").matcher(line);
                while (m.find()) args.add(m.group(1));
                answer(args, out);
            }
        } else ok = answer(List.of(argv), out);
        System.exit(ok ? 0 : 1);
    }

    static boolean answer(List<String> args, PrintStream out) {
        boolean ok = args.size() == 2 && args.get(0).equals("sequence");
        String answer;
        try {
            if (!ok) throw new IllegalArgumentException("unknown verb " + args + ": sequence SPEC.json");
            answer = json(sequence(Path.of(args.get(1))));
        } catch (Throwable e) {
            ok = false;
            answer = json(error(e));
        }
        out.println(answer);
        out.flush();
        return ok;
    }

    static Map<String, Object> sequence(Path spec) throws Exception {
        List<String> lines = Files.readAllLines(spec);
        Map<String, String> config = fields(lines.get(0));
        Path dir = Files.createDirectory(Files.createTempDirectory("judge").resolve("judged-0"));
        List<Object> steps = new ArrayList<>();
        Sequence sequence = null;
        try {
            sequence = new Sequence(dir, Long.parseLong(config.remove("now")), config);
            for (String line : lines.subList(1, lines.size())) {
                if (!line.contains("\"do\"")) continue;
                Map<String, Object> answer = new LinkedHashMap<>();
                try { answer.put("answer", sequence.play(fields(line))); } catch (Throwable e) { answer.putAll(error(e)); }
                try { if (!sequence.closed) sequence.settle(); } catch (Throwable e) { answer.put("unsettled", String.valueOf(e)); }
                answer.putAll(sequence.state());
                steps.add(answer);
                if (sequence.closed) break; // it did not start
            }
            if (!sequence.closed) sequence.stop();
            return object("steps", steps, "files", contents(dir));
        } finally {
            if (sequence != null && !sequence.closed) sequence.abandon();
            try (var walk = Files.walk(dir.getParent())) { walk.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete()); }
        }
    }

    static Map<String, Object> contents(Path dir) throws IOException {
        Map<String, Object> files = new TreeMap<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(dir)) {
            for (Path p : all) if (!p.toString().endsWith(".deleted")) files.put(p.getFileName().toString(), hex(Files.readAllBytes(p)));
        }
        return files;
    }

    /** A log with one replica, whose high watermark follows the log end. Files are modified when the clock says. */
    static class Sequence {
        static Object stats; // thirty meters each
        final Path dir;
        final Object config;
        final Map<Path, FileTime> modified = new HashMap<>();
        final Later later = new Later();
        long now, recoveryPoint, logStart;
        Object log;
        boolean closed;

        Sequence(Path dir, long now, Map<String, String> settings) throws Exception {
            this.dir = dir;
            this.now = now;
            config = logConfig(settings);
            start(true);
        }

        void start(boolean clean) throws Exception {
            Path marker = dir.resolveSibling(".kafka_cleanshutdown"); // read by Log itself up to 2.7
            if (clean) Files.write(marker, new byte[0]); else Files.deleteIfExists(marker);
            closed = true;
            Deque<Object> longs = new ArrayDeque<>(List.of(logStart, recoveryPoint)), flags = new ArrayDeque<>(List.of(clean, true, false));
            Executable made = opener();
            if (Arrays.stream(made.getParameterTypes()).filter(t -> t == long.class).count() == 1) longs.removeFirst(); // no log start before 0.11
            Object[] arguments = new Object[made.getParameterCount()];
            for (int i = 0; i < arguments.length; i++) arguments[i] = argument(made.getParameterTypes()[i], longs, flags);
            log = made instanceof Constructor ? ((Constructor<?>) made).newInstance(arguments) : ((Method) made).invoke(made.getDeclaringClass().getField("MODULE$").get(null), arguments);
            closed = false;
            settle();
        }

        Object argument(Class<?> type, Deque<Object> longs, Deque<Object> flags) throws Exception {
            if (type == long.class) return longs.removeFirst();
            if (type == boolean.class) return flags.removeFirst();
            if (type == int.class) return 600_000;
            if (type == File.class) return dir.toFile();
            if (type == Optional.class) return Optional.empty();
            if (type.isAssignableFrom(ConcurrentHashMap.class)) return new ConcurrentHashMap<>();
            switch (type.getSimpleName()) {
                case "LogConfig": return config;
                case "Option": return none();
                case "Scheduler": return proxy(type, later);
                case "Time": return proxy(type, (self, method, args) -> method.getName().equals("nanoseconds") ? (Object) (now * 1_000_000) : method.getReturnType() == long.class ? (Object) now : null);
                case "BrokerTopicStats": return stats = stats != null ? stats : type.getConstructors()[0].getParameterCount() == 0 ? type.getConstructor().newInstance() : type.getConstructor(boolean.class).newInstance(false);
                case "LogDirFailureChannel": return type.getConstructor(int.class).newInstance(10);
                case "ProducerStateManagerConfig": return type.getConstructor(int.class, boolean.class).newInstance(86_400_000, false);
                case "LogOffsetsListener": return type.getField("NO_OP_OFFSETS_LISTENER").get(null);
                default: throw new IllegalArgumentException("no argument of type " + type);
            }
        }

        Object play(Map<String, String> step) throws Exception {
            now = Long.parseLong(step.get("now"));
            switch (step.get("do")) {
                case "leader": return append(step, true);
                case "marker": return append(step, false);
                case "follower": {
                    Object info = named(log, "append").isEmpty() ? by(log, "appendAsFollower", records(step, log), Integer.MAX_VALUE) : by(log, "append", records(step, log), false);
                    return call(info, "validBytes");
                }
                case "roll": by(log, "roll", 0L, none()); return null;
                case "truncate": by(log, "truncateTo", Long.parseLong(step.get("offset"))); return null;
                case "retain": return named(log, "deleteOldSegments").get(0).getParameterCount() == 0 ? call(log, "deleteOldSegments") : retain();
                case "delete-records": {
                    long offset = Long.parseLong(step.get("offset"));
                    if (offset > (Long) call(log, "logEndOffset")) throw (Exception) Class.forName("org.apache.kafka.common.errors.OffsetOutOfRangeException").getConstructor(String.class).newInstance("as Replica up to 2.3");
                    by(log, "maybeIncrementLogStartOffset", offset, value("LogStartOffsetIncrementReason", "ClientRecordDeletion"));
                    return null;
                }
                case "search": {
                    String name = named(log, "fetchOffsetsByTimestamp").isEmpty() ? "fetchOffsetByTimestamp" : "fetchOffsetsByTimestamp";
                    Object hit = opened(by(log, name, Long.parseLong(step.get("time")), none()));
                    return hit == null ? null : List.of(get(hit, "timestamp"), get(hit, "offset"));
                }
                case "fetch": {
                    Object read = by(log, "read", Long.parseLong(step.get("offset")), Integer.parseInt(step.get("bytes")), some((Long) call(log, "logEndOffset")),
                        value("FetchIsolation", "HIGH_WATERMARK", "kafka.server.FetchHighWatermark$"), true, false, value("IsolationLevel", "READ_UNCOMMITTED"));
                    return hex(bytes(get(read, named(read, "messageSet").isEmpty() ? "records" : "messageSet")));
                }
                case "stop": stop(); start(true); return null;
                case "kill": kill(Long.parseLong(step.get("lose"))); start(false); return null;
                default: throw new IllegalArgumentException("unknown step " + step);
            }
        }

        /** As LogManager.cleanupExpiredSegments and cleanupSegmentsToMaintainSize, to 0.10.0. */
        int retain() throws Exception {
            long ms = (Long) call(config, "retentionMs"), most = (Long) call(config, "retentionSize");
            int deleted = 0;
            if (ms >= 0) deleted += deleteWhere(s -> now - (Long) call(s, "lastModified") > ms);
            long[] left = {(Long) call(log, "size") - most};
            if (most >= 0 && left[0] >= 0) deleted += deleteWhere(s -> {
                long size = (Long) call(s, "size");
                if (left[0] - size < 0) return false;
                left[0] -= size;
                return true;
            });
            return deleted;
        }

        interface Deletes { boolean test(Object segment) throws Exception; }

        int deleteWhere(Deletes which) throws Exception {
            return (Integer) by(log, "deleteOldSegments", proxy(Class.forName("scala.Function1"), (self, method, args) -> which.test(args[0])));
        }

        Object append(Map<String, String> step, boolean client) throws Exception {
            Object info, origin = client ? value("AppendOrigin", "CLIENT", "kafka.log.AppendOrigin$Client$") : value("AppendOrigin", "COORDINATOR", "kafka.log.AppendOrigin$Coordinator$");
            if (!named(log, "append").isEmpty()) info = by(log, "append", records(step, log), true); // to 0.10
            else info = by(log, "appendAsLeader", records(step, log), Integer.parseInt(step.get("epoch")), client, origin, latest(), value("RequestLocal", "NoCaching"), value("VerificationGuard", "SENTINEL"));
            Object first = opened(call(info, "firstOffset"));
            return List.of(first instanceof Long ? first : get(first, "messageOffset"), call(info, "lastOffset"), call(info, named(info, "logAppendTime").isEmpty() ? "timestamp" : "logAppendTime"));
        }

        /** As LogManager.shutdown. */
        void stop() throws Exception {
            later.run();
            by(log, "flush", true);
            call(log, "close");
            closed = true;
            keep();
        }

        void kill(long lose) throws Exception {
            later.run();
            Path active = dir.resolve(String.format("%020d.log", (Long) call(call(log, "activeSegment"), "baseOffset")));
            abandon();
            keep();
            try (FileChannel channel = FileChannel.open(active, StandardOpenOption.WRITE)) { channel.truncate(Math.max(0, channel.size() - lose)); }
        }

        /** Writes nothing more. Before 1.1 the mapped indexes stay open until they are collected. */
        void abandon() throws Exception {
            if (!named(log, "closeHandlers").isEmpty()) call(log, "closeHandlers");
            else for (Object segment : segments()) ((Closeable) call(call(segment, "log"), "channel")).close();
            closed = true;
        }

        /** What the checkpoints of the log directory hold. */
        void keep() throws Exception {
            recoveryPoint = (Long) call(log, "recoveryPoint");
            logStart = (Long) call(log, "logStartOffset");
        }

        void settle() throws Exception {
            later.run();
            for (String name : List.of("updateHighWatermark", "onHighWatermarkIncremented")) if (!named(log, name).isEmpty()) by(log, name, call(log, "logEndOffset"));
            FileTime time = FileTime.fromMillis(now);
            try (DirectoryStream<Path> all = Files.newDirectoryStream(dir, "*.log")) {
                for (Path p : all) {
                    if (Files.getLastModifiedTime(p).equals(modified.get(p))) continue;
                    Files.setLastModifiedTime(p, time);
                    modified.put(p, Files.getLastModifiedTime(p));
                }
            }
        }

        List<Object> segments() throws Exception {
            Object all = call(log, "logSegments");
            if (all instanceof Collection) return new ArrayList<>((Collection<?>) all);
            List<Object> found = new ArrayList<>();
            Object iterator = call(all, "iterator");
            while ((Boolean) call(iterator, "hasNext")) found.add(call(iterator, "next"));
            return found;
        }

        static Object largest(Object segment) throws Exception {
            for (String name : List.of("maxTimestampSoFar", "kafka$log$LogSegment$$maxTimestampSoFar")) if (!named(segment, name).isEmpty()) return call(segment, name);
            Field private_ = segment.getClass().getDeclaredField("maxTimestampSoFar");
            private_.setAccessible(true);
            return private_.get(segment);
        }

        Map<String, Object> state() throws Exception {
            List<Object> segments = new ArrayList<>();
            for (Object s : segments()) {
                Object offsets = call(s, named(s, "offsetIndex").isEmpty() ? "index" : "offsetIndex");
                Object times = named(s, "timeIndex").isEmpty() ? 0 : call(call(s, "timeIndex"), "entries"); // none before 0.10.1
                segments.add(List.of(call(s, "baseOffset"), call(s, "size"), call(offsets, "entries"), times, named(s, "timeIndex").isEmpty() ? -1L : largest(s)));
            }
            List<Long> snapshots = new ArrayList<>();
            try (DirectoryStream<Path> all = Files.newDirectoryStream(dir, "*.snapshot")) {
                for (Path p : all) snapshots.add(Long.parseLong(p.getFileName().toString().substring(0, 20)));
            }
            Collections.sort(snapshots);
            return object("log_start", call(log, "logStartOffset"), "log_end", call(log, "logEndOffset"), "recovery_point", call(log, "recoveryPoint"), "segments", segments, "snapshots", snapshots);
        }
    }

    /** Keeps what a broker would do in the background; run() does it, deletions too. What it does again and again is left out. */
    static class Later implements InvocationHandler {
        final List<Object> due = new ArrayList<>();

        @Override public Object invoke(Object self, Method method, Object[] args) {
            if (method.getName().contains("$default$")) return method.getReturnType() == TimeUnit.class ? TimeUnit.MILLISECONDS : method.getName().endsWith("4") ? (Object) (-1L) : (Object) 0L;
            if (!method.getName().startsWith("schedule")) return method.getReturnType() == boolean.class ? (Object) true : null;
            if (args.length < 4 || (Long) args[3] < 0) due.add(args[1]);
            return method.getReturnType() == void.class ? null : new Never();
        }

        void run() throws Exception {
            while (!due.isEmpty()) {
                Object task = due.remove(0);
                if (task instanceof Runnable) ((Runnable) task).run(); else unwrapped(() -> Class.forName("scala.Function0").getMethod("apply").invoke(task));
            }
        }
    }

    static class Never extends FutureTask<Object> implements ScheduledFuture<Object> {
        Never() { super(() -> null); }
        public long getDelay(TimeUnit unit) { return Long.MAX_VALUE; }
        public int compareTo(Delayed o) { return 0; }
    }

    // ---------------------------------------------------------------- Kafka's objects, by reflection

    static Executable opener() throws Exception {
        for (String name : List.of("kafka.log.UnifiedLog$", "kafka.log.Log$"))
            if (exists(name)) for (Method m : Class.forName(name).getMethods()) if (m.getName().equals("apply") && m.getParameterCount() > 5) return m;
        return Class.forName("kafka.log.Log").getConstructors()[0]; // to 0.10
    }

    static Object logConfig(Map<String, String> settings) throws Exception {
        String moved = "org.apache.kafka.storage.internals.log.LogConfig";
        for (Constructor<?> c : Class.forName(exists(moved) ? moved : "kafka.log.LogConfig").getConstructors()) {
            if (c.getParameterCount() == 1) return c.newInstance(settings);
            if (c.getParameterCount() == 2 && c.getParameterTypes()[0] == Map.class && !Set.class.isAssignableFrom(c.getParameterTypes()[1]))
                return c.newInstance(settings, call(Class.forName("scala.collection.immutable.Set$").getField("MODULE$").get(null), "empty"));
        }
        throw new NoSuchMethodException("LogConfig");
    }

    static Object records(Map<String, String> step, Object log) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(step.get("hex")));
        for (Method m : named(log, "append")) {
            Class<?> type = m.getParameterTypes()[0];
            if (type.getSimpleName().equals("ByteBufferMessageSet")) return type.getConstructor(ByteBuffer.class).newInstance(buffer); // to 0.10.1
        }
        return Class.forName("org.apache.kafka.common.record.MemoryRecords").getMethod("readableRecords", ByteBuffer.class).invoke(null, buffer);
    }

    static byte[] bytes(Object records) throws Exception {
        ByteBuffer read = ByteBuffer.allocate((Integer) call(records, "sizeInBytes"));
        if (!named(records, "readInto").isEmpty()) by(records, "readInto", read, 0);
        return read.array();
    }

    static Object latest() throws Exception {
        if (exists("org.apache.kafka.server.common.MetadataVersion")) return call(Class.forName("org.apache.kafka.server.common.MetadataVersion"), "latestProduction");
        return exists("kafka.api.ApiVersion$") ? call(Class.forName("kafka.api.ApiVersion$").getField("MODULE$").get(null), "latestVersion") : null;
    }

    /** A constant of the class of that simple name, or the Scala object `module`; null where this version has none. */
    static Object value(String type, String name, String... module) throws Exception {
        for (String at : List.of("org.apache.kafka.storage.internals.log.", "org.apache.kafka.common.", "org.apache.kafka.common.requests.", "kafka.server.", "kafka.log.")) {
            if (!exists(at + type)) continue;
            Class<?> c = Class.forName(at + type);
            for (Field f : c.getFields()) if (f.getName().equals(name) && Modifier.isStatic(f.getModifiers())) return f.get(null);
            for (Method m : c.getMethods()) if (m.getName().equals(name) && Modifier.isStatic(m.getModifiers())) return m.invoke(null);
        }
        for (String one : module.length > 0 ? module : new String[]{"kafka.log." + name + "$"}) if (exists(one)) return Class.forName(one).getField("MODULE$").get(null);
        return null;
    }

    static Object none() throws Exception { return Class.forName("scala.None$").getField("MODULE$").get(null); }
    static Object some(Object o) throws Exception { return Class.forName("scala.Some").getConstructors()[0].newInstance(o); }

    /** The content of an Option, null for None; anything else as it is. */
    static Object opened(Object o) throws Exception {
        if (o instanceof Optional) return ((Optional<?>) o).orElse(null);
        return !Class.forName("scala.Option").isInstance(o) ? o : (Boolean) call(o, "isEmpty") ? null : call(o, "get");
    }

    /** Calls the method whose parameters can all be found, in their order, among what is given. */
    static Object by(Object o, String name, Object... given) throws Exception {
        for (Method m : named(o, name)) {
            List<Object> arguments = new ArrayList<>();
            List<Object> left = new ArrayList<>(Arrays.asList(given));
            for (Class<?> type : m.getParameterTypes()) {
                while (!left.isEmpty() && !fits(type, left.get(0))) left.remove(0);
                if (!left.isEmpty()) arguments.add(left.remove(0));
            }
            if (arguments.size() == m.getParameterCount()) return unwrapped(() -> m.invoke(o, arguments.toArray()));
        }
        throw new NoSuchMethodException(o.getClass() + "." + name);
    }

    static boolean fits(Class<?> type, Object o) {
        if (o == null) return false;
        return java.lang.invoke.MethodType.methodType(type).wrap().returnType().isInstance(o);
    }

    static Object call(Object o, String name) throws Exception {
        for (Method m : o instanceof Class ? Arrays.asList(((Class<?>) o).getMethods()) : named(o, name))
            if (m.getName().equals(name) && m.getParameterCount() == 0) return unwrapped(() -> m.invoke(o instanceof Class ? null : o));
        throw new NoSuchMethodException(o + "." + name);
    }

    static Object get(Object o, String name) throws Exception {
        for (Field f : o.getClass().getFields()) if (f.getName().equals(name)) return f.get(o);
        return call(o, name);
    }

    static final Map<String, List<Method>> METHODS = new HashMap<>();

    /** The public methods of that name, those with most parameters first. */
    static List<Method> named(Object o, String name) {
        return METHODS.computeIfAbsent(o.getClass().getName() + "." + name, key -> {
            List<Method> found = new ArrayList<>();
            for (Method m : o.getClass().getMethods()) if (m.getName().equals(name) && !m.isBridge()) { m.setAccessible(true); found.add(m); }
            found.sort(Comparator.comparing(m -> -m.getParameterCount()));
            return found;
        });
    }

    static <T> T unwrapped(Callable<T> c) throws Exception {
        try { return c.call(); } catch (InvocationTargetException e) { if (e.getCause() instanceof Exception) throw (Exception) e.getCause(); throw (Error) e.getCause(); }
    }

    static Object proxy(Class<?> type, InvocationHandler handler) { return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[]{type}, handler); }
    static boolean exists(String name) { try { Class.forName(name); return true; } catch (ClassNotFoundException e) { return false; } }

    // ---------------------------------------------------------------- JSON

    static Map<String, String> fields(String line) {
        Map<String, String> found = new LinkedHashMap<>();
        Matcher m = FIELD.matcher(line);
        while (m.find()) found.put(m.group(1), m.group(2) != null ? m.group(2) : m.group(3));
        return found;
    }

    static Map<String, Object> error(Throwable thrown) {
        Throwable e = thrown instanceof InvocationTargetException && thrown.getCause() != null ? thrown.getCause() : thrown;
        return object("error", e.getClass().getName(), "message", String.valueOf(e.getMessage()));
    }

    static Map<String, Object> object(Object... kv) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < kv.length; i += 2) m.put((String) kv[i], kv[i + 1]);
        return m;
    }

    static String json(Object o) {
        List<String> parts = new ArrayList<>();
        if (o instanceof Map) { ((Map<?, ?>) o).forEach((k, v) -> parts.add(json(k) + ":" + json(v))); return "{" + String.join(",", parts) + "}"; }
        if (o instanceof List) { ((List<?>) o).forEach(v -> parts.add(json(v))); return "[" + String.join(",", parts) + "]"; }
        return o instanceof String ? '"' + ((String) o).replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("[\\x00-\\x1f]", " ") + '"' : String.valueOf(o);
    }

    static String hex(byte[] b) { return HexFormat.of().formatHex(b); }
}
