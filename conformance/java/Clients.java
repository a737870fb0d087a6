import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.processor.FailOnInvalidTimestamp;

/**
 * Kafka's own producer and consumer on a real broker: which timestamps they take, tell and return.
 *
 * client topics PORT                    create the topics `create` and `append`, by timestamp type, and `old` in format 0.10
 * client produce PORT TIMESTAMP         send one record to each, and one with a negative timestamp, with and without the producer's check
 * client consume PORT TOPIC...          read the topics' records; a timestamp extractor of Kafka Streams judges each
 *
 * Prints JSON, one object per line.
 */
public final class Clients {
    static final long SPUTNIK = -386380800000L;

    public static void main(String[] words) throws Exception {
        String servers = "127.0.0.1:" + words[2];
        switch (words[1]) {
            case "topics" -> topics(servers);
            case "produce" -> produce(servers, Long.parseLong(words[3]));
            case "consume" -> {
                for (int n = 3; n < words.length; n++) consume(servers, words[n]);
            }
            default -> throw new IllegalArgumentException(words[1]);
        }
    }

    static void topics(String servers) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            List<NewTopic> made = new ArrayList<>();
            made.add(topic("create", Map.of("message.timestamp.type", "CreateTime")));
            made.add(topic("append", Map.of("message.timestamp.type", "LogAppendTime")));
            made.add(topic("old", Map.of("message.format.version", "0.10.0")));
            admin.createTopics(made).all().get();
        }
        System.out.println("{\"topics\": 3}");
    }

    static NewTopic topic(String name, Map<String, String> config) {
        Map<String, String> all = new java.util.HashMap<>(config);
        all.put("retention.ms", "-1");
        return new NewTopic(name, 1, (short) 1).configs(all);
    }

    static void produce(String servers, long timestamp) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", servers, "acks", "all", "compression.type", "gzip");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (String topic : List.of("create", "append", "old")) {
                AtomicLong called = new AtomicLong(Long.MIN_VALUE);
                long before = System.currentTimeMillis();
                RecordMetadata told = producer.send(
                    new ProducerRecord<>(topic, 0, timestamp, "key", "value"),
                    (metadata, error) -> called.set(metadata.timestamp())).get();
                System.out.printf("{\"topic\": \"%s\", \"metadata\": %d, \"callback\": %d, \"before\": %d, \"after\": %d}%n",
                    topic, told.timestamp(), called.get(), before, System.currentTimeMillis());
            }
            System.out.printf("{\"constructor\": \"%s\"}%n", constructed());
            System.out.printf("{\"producer\": \"%s\"}%n", unchecked(producer));
        }
    }

    /** The answer of the record's constructor to a negative timestamp. */
    static String constructed() {
        try {
            new ProducerRecord<>("create", 0, SPUTNIK, "key", "value");
            return "taken";
        } catch (IllegalArgumentException e) {
            return e.getMessage();
        }
    }

    /** The answer of the producer to a record whose constructor did not check. */
    static String unchecked(KafkaProducer<String, String> producer) throws Exception {
        ProducerRecord<String, String> record = new ProducerRecord<>("create", 0, 0L, "key", "value");
        Field field = ProducerRecord.class.getDeclaredField("timestamp");
        field.setAccessible(true);
        field.set(record, SPUTNIK);
        try {
            return "sent with " + producer.send(record).get().timestamp();
        } catch (IllegalArgumentException | ExecutionException e) {
            return e.getMessage();
        }
    }

    static void consume(String servers, String topic) {
        Map<String, Object> config = Map.of("bootstrap.servers", servers);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(5))) {
                    System.out.printf("{\"topic\": \"%s\", \"offset\": %d, \"timestamp\": %d, \"type\": \"%s\", \"value\": \"%s\", \"streams\": \"%s\"}%n",
                        topic, record.offset(), record.timestamp(), record.timestampType(), record.value(), extracted(record));
                }
            }
        }
    }

    /** What the default extractor of Kafka Streams makes of a record. */
    @SuppressWarnings("unchecked")
    static String extracted(ConsumerRecord<String, String> record) {
        try {
            ConsumerRecord<?, ?> any = record;
            return "" + new FailOnInvalidTimestamp().extract((ConsumerRecord<Object, Object>) any, -1L);
        } catch (RuntimeException e) {
            return e.getClass().getSimpleName();
        }
    }
}
