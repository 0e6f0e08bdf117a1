import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.kafka.server.log.remote.storage.LocalTieredStorage;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;

/** LocalTieredStorage whose every read waits first, for as many ms as the file latency-ms in its directory says. */
public class SlowTieredStorage extends LocalTieredStorage {
    private Path latency;

    @Override
    public void configure(Map<String, ?> configs) {
        super.configure(configs);
        latency = Path.of(configs.get("dir").toString(), "latency-ms");
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start) throws RemoteStorageException {
        pause();
        return super.fetchLogSegment(metadata, start);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
            throws RemoteStorageException {
        pause();
        return super.fetchLogSegment(metadata, start, end);
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type) throws RemoteStorageException {
        pause();
        return super.fetchIndex(metadata, type);
    }

    private void pause() throws RemoteStorageException {
        try {
            Thread.sleep(Long.parseLong(Files.readString(latency).trim()));
        } catch (Exception error) {
            throw new RemoteStorageException("no latency", error);
        }
    }
}
