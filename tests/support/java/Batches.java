import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * Reads every batch of one file with Kafka's own reader, and writes its records to another with
 * Kafka's own writer and the same codec. Prints the number of records.
 */
public final class Batches {
    public static void main(String[] arguments) throws IOException {
        ByteBuffer given = ByteBuffer.wrap(Files.readAllBytes(Path.of(arguments[0])));
        int count = 0;
        try (FileChannel out = FileChannel.open(Path.of(arguments[1]),
                StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(given).batches()) {
                batch.ensureValid();
                List<SimpleRecord> records = new ArrayList<>();
                for (Record record : batch) {
                    record.ensureValid();
                    records.add(new SimpleRecord(record));
                }
                count += records.size();
                MemoryRecords written = MemoryRecords.withRecords(batch.baseOffset(),
                        Compression.of(batch.compressionType()).build(),
                        records.toArray(new SimpleRecord[0]));
                out.write(written.buffer());
            }
        }
        System.out.println(count);
    }
}
