import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;

/**
 * old-consumer PORT TOPIC: a consumer of Kafka 0.9 reads the first record of a topic. Prints one JSON object.
 *
 * An exception while it decodes a fetch is only logged there ("Uncaught error in request completion"), and it polls for ever: it is
 * taken from the log.
 */
public final class OldConsumer {
    static volatile Throwable logged;

    public static void main(String[] words) {
        Logger.getRootLogger().setLevel(Level.ERROR);
        Logger.getRootLogger().addAppender(new AppenderSkeleton() {
            protected void append(LoggingEvent event) {
                if (event.getThrowableInformation() != null) logged = event.getThrowableInformation().getThrowable();
            }

            public void close() {}

            public boolean requiresLayout() {
                return false;
            }
        });
        Properties config = new Properties();
        config.put("bootstrap.servers", "127.0.0.1:" + words[1]);
        config.put("enable.auto.commit", "false");
        config.put("group.id", "old");
        TopicPartition partition = new TopicPartition(words[2], 0);
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        try {
            consumer.assign(Arrays.asList(partition));
            consumer.seekToBeginning(partition);
            for (int n = 0; n < 120 && logged == null; n++) {
                for (ConsumerRecord<String, String> record : consumer.poll(250)) {
                    System.out.printf("{\"key\": \"%s\", \"value\": \"%s\"}%n", record.key(), record.value());
                    return;
                }
            }
        } catch (RuntimeException e) {
            logged = e;
        } finally {
            consumer.close();
        }
        System.out.printf("{\"error\": \"%s\"}%n", logged == null ? "nothing came" : logged.getClass().getName());
    }
}
