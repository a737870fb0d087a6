import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Scanner;
import org.apache.spark.sql.kafka010.JsonUtils;
import scala.jdk.javaapi.CollectionConverters;

/** Lines of KIND<tab>JSON as Spark's Kafka source reads its options; answers TOPIC-PARTITION=NUMBER ..., sorted, or an error. */
public class SparkOptions {
    public static void main(String[] words) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] asked = lines.nextLine().split("\t", 2);
            try {
                System.out.println(read(asked[0], asked[1]));
            } catch (IllegalArgumentException e) {
                System.out.println("error " + e.getMessage().split("\n")[0]);
            }
        }
    }

    static String read(String kind, String json) {
        if (kind.equals("partitions"))
            return sorted(Arrays.stream(JsonUtils.partitions(json)).map(String::valueOf).toArray(String[]::new));
        var found = CollectionConverters.asJava(
            kind.equals("offsets") ? JsonUtils.partitionOffsets(json) : JsonUtils.partitionTimestamps(json));
        return sorted(found.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()).toArray(String[]::new));
    }

    static String sorted(String[] words) {
        Arrays.sort(words);
        return String.join(" ", words);
    }
}
