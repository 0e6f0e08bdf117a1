import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.LocalTieredStorage;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * LocalTieredStorage, slow and narrow as two files in its directory say.
 *
 * <p>latency-ms: every read waits first for so many ms. bytes-per-s: what all brokers together get through, to the tier
 * and from it; 0: no limit. It is shared by turns of a piece each: the file "turn" has until when the last one lasts, in
 * ns of the machine's monotonic clock.
 */
public class SlowTieredStorage implements RemoteStorageManager {
    private static final int PIECE_BYTES = 64 << 10;
    /** Who wakes up late makes up for so much. */
    private static final long LATE_NS = 20_000_000;
    private static final Object TURNS = new Object();

    private final LocalTieredStorage storage = new LocalTieredStorage();
    private Path directory;

    @Override
    public void configure(Map<String, ?> configs) {
        storage.configure(configs);
        directory = Path.of(configs.get("dir").toString());
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata, LogSegmentData data)
            throws RemoteStorageException {
        try {
            pass(Files.size(data.logSegment()));
        } catch (IOException error) {
            throw new RemoteStorageException("no size", error);
        }
        return storage.copyLogSegmentData(metadata, data);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start) throws RemoteStorageException {
        pause();
        return new Narrow(storage.fetchLogSegment(metadata, start));
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
            throws RemoteStorageException {
        pause();
        return new Narrow(storage.fetchLogSegment(metadata, start, end));
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type) throws RemoteStorageException {
        pause();
        return new Narrow(storage.fetchIndex(metadata, type));
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        storage.deleteLogSegmentData(metadata);
    }

    @Override
    public void close() {
        storage.close();
    }

    private void pause() throws RemoteStorageException {
        try {
            Thread.sleep(number("latency-ms"));
        } catch (Exception error) {
            throw new RemoteStorageException("no latency", error);
        }
    }

    private long number(String file) throws IOException {
        return Long.parseLong(Files.readString(directory.resolve(file)).trim());
    }

    /** Until so many bytes are through. */
    private void pass(long count) throws IOException {
        long rate = number("bytes-per-s");
        for (long left = count; rate > 0 && left > 0; left -= PIECE_BYTES) {
            long ns = turn(Math.min(left, PIECE_BYTES) * 1_000_000_000L / rate);
            try {
                Thread.sleep(ns / 1_000_000, (int) (ns % 1_000_000));
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new IOException("interrupted", error);
            }
        }
    }

    /** Takes a turn that lasts so long; returns in how many ns it is over. */
    private long turn(long takes) throws IOException {
        synchronized (TURNS) { // a lock of the file is one of the whole process
            try (FileChannel file = FileChannel.open(
                            directory.resolve("turn"),
                            StandardOpenOption.CREATE,
                            StandardOpenOption.READ,
                            StandardOpenOption.WRITE);
                    FileLock lock = file.lock()) {
                ByteBuffer before = ByteBuffer.allocate(32);
                file.read(before, 0);
                String text = new String(before.array(), 0, before.position(), StandardCharsets.US_ASCII).trim();
                long now = System.nanoTime();
                long until = Math.max(now - LATE_NS, text.isEmpty() ? 0 : Long.parseLong(text)) + takes;
                file.truncate(0);
                file.write(ByteBuffer.wrap(Long.toString(until).getBytes(StandardCharsets.US_ASCII)), 0);
                return Math.max(0, until - now);
            }
        }
    }

    /** What is read counts. */
    private final class Narrow extends FilterInputStream {
        Narrow(InputStream in) {
            super(in);
        }

        @Override
        public int read() throws IOException {
            int found = super.read();
            pass(found < 0 ? 0 : 1);
            return found;
        }

        @Override
        public int read(byte[] into, int from, int most) throws IOException {
            int count = super.read(into, from, most);
            pass(Math.max(0, count));
            return count;
        }
    }
}
