import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/**
 * Transactions of Java's producers, and a read_committed consumer beside them:
 * `Transactions.java SERVERS TOPIC PARTITIONS PRODUCERS RECORDS BYTES WARM_UP_S SECONDS`.
 * It prints commits a second, and the median and 99th percentile from send to receive in ms.
 */
public class Transactions {
    static final AtomicBoolean isCounted = new AtomicBoolean();
    static final AtomicBoolean isOver = new AtomicBoolean();
    static final AtomicLong commits = new AtomicLong();

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], topic = arguments[1];
        int[] numbers = Arrays.stream(arguments).skip(2).mapToInt(Integer::parseInt).toArray();
        int partitions = numbers[0], producers = numbers[1], records = numbers[2], bytes = numbers[3];
        ExecutorService pool = Executors.newCachedThreadPool();
        CountDownLatch reading = new CountDownLatch(1);
        Future<List<Double>> read = pool.submit(() -> read(servers, topic, partitions, reading));
        reading.await();
        List<Future<?>> writing = new ArrayList<>();
        for (int number = 0; number < producers; number++) {
            String id = "java-" + ProcessHandle.current().pid() + "-" + number;
            writing.add(pool.submit(() -> write(servers, topic, id, partitions, records, bytes)));
        }
        Thread.sleep(numbers[4] * 1000L);
        long began = System.nanoTime(), before = commits.get();
        isCounted.set(true);
        Thread.sleep(numbers[5] * 1000L);
        double rate = (commits.get() - before) / ((System.nanoTime() - began) / 1e9);
        isOver.set(true);
        for (Future<?> each : writing) each.get();
        List<Double> latencies = read.get();
        Collections.sort(latencies);
        double median = latencies.get(latencies.size() / 2), high = latencies.get(latencies.size() * 99 / 100);
        System.out.printf(Locale.ROOT, "figures %.3f %.3f %.3f%n", rate, median, high);
        pool.shutdown();
    }

    static void write(String servers, String topic, String id, int partitions, int records, int bytes) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", id);
        settings.put("acks", "all");
        try (var producer = new KafkaProducer<>(settings, new VoidSerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            byte[] value = new byte[bytes];
            new Random(1).nextBytes(value);
            while (!isOver.get()) {
                producer.beginTransaction();
                for (int number = 0; number < records; number++) {
                    long now = System.currentTimeMillis();
                    producer.send(new ProducerRecord<>(topic, number % partitions, now, null, stamped(value)));
                }
                producer.commitTransaction();
                commits.incrementAndGet();
            }
        }
    }

    static byte[] stamped(byte[] value) {
        byte[] copy = value.clone();
        java.nio.ByteBuffer.wrap(copy).putLong(System.nanoTime());
        return copy;
    }

    static List<Double> read(String servers, String topic, int partitions, CountDownLatch reading) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        List<Double> latencies = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int number = 0; number < partitions; number++) all.add(new TopicPartition(topic, number));
            consumer.assign(all);
            consumer.seekToEnd(all);
            for (TopicPartition each : all) consumer.position(each);
            reading.countDown();
            while (!isOver.get()) {
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    long sent = java.nio.ByteBuffer.wrap(record.value()).getLong();
                    if (isCounted.get()) latencies.add((System.nanoTime() - sent) / 1e6);
                }
            }
        }
        return latencies;
    }
}
