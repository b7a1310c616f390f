package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// write sends 50 records in each codec to partition 0, for other clients to read.
func write(ctx context.Context, servers, topic string) {
	codecs := []struct {
		name  string
		codec kgo.CompressionCodec
	}{
		{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()},
		{"snappy", kgo.SnappyCompression()}, {"lz4", kgo.Lz4Compression()},
		{"zstd", kgo.ZstdCompression()},
	}
	number := 0
	for _, codec := range codecs {
		client, err := kgo.NewClient(append(seeds(servers),
			kgo.DefaultProduceTopic(topic),
			kgo.ProducerBatchCompression(codec.codec),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		check(err, "producer")
		var records []*kgo.Record
		for range 50 {
			records = append(records, &kgo.Record{
				Key:       []byte(fmt.Sprintf("key %d", number)),
				Value:     []byte(strings.Repeat(fmt.Sprintf("%s %d ", codec.name, number), 20)),
				Timestamp: start.Add(time.Duration(number) * time.Millisecond),
				Headers:   []kgo.RecordHeader{{Key: "h", Value: []byte("x")}},
			})
			number++
		}
		check(client.ProduceSync(ctx, records...).FirstErr(), "produce")
		client.Close()
	}
}

// read prints the values of partition 0 from its start to its end.
func read(ctx context.Context, servers, topic string, count int) {
	client, err := kgo.NewClient(append(seeds(servers), kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	check(err, "consumer")
	defer client.Close()
	for seen := 0; seen < count; {
		fetches := client.PollFetches(ctx)
		for _, problem := range fetches.Errors() {
			check(problem.Err, "fetch")
		}
		fetches.EachRecord(func(got *kgo.Record) {
			fmt.Println(string(got.Value))
			seen++
		})
	}
}
