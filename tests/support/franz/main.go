// A whole visit to a broker with franz-go: a topic, every codec, every acks, headers, nulls,
// timestamps, a list of offsets by time, configs, trimming and deleting.
// Prints "ok" and exits with 0, or says what was not as it should be and exits with 1.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const perCodec = 20

var start = time.UnixMilli(1_700_000_000_000)

func check(err error, doing string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", doing, err)
		os.Exit(1)
	}
}

func expect(holds bool, format string, arguments ...any) {
	if !holds {
		check(fmt.Errorf(format, arguments...), "expected")
	}
}

func addresses(servers string) []string {
	return strings.Split(servers, ",")
}

// replicas of a topic: as many as there are brokers, three at most.
func replicas() int16 {
	brokers, err := strconv.Atoi(os.Getenv("BROKERS"))
	if err != nil {
		brokers = 1
	}
	return int16(min(brokers, 3))
}

func record(number int) *kgo.Record {
	r := &kgo.Record{
		Value:     []byte(fmt.Sprintf("value %d", number)),
		Key:       []byte(fmt.Sprintf("key %d", number)),
		Timestamp: start.Add(time.Duration(number) * time.Second),
		Headers:   []kgo.RecordHeader{{Key: "h", Value: []byte("x")}, {Key: "none", Value: nil}},
		Partition: 0,
	}
	if number%5 == 0 {
		r.Key = nil
	}
	if number%7 == 0 {
		r.Value = nil
	}
	return r
}

func produce(ctx context.Context, servers, topic string) int {
	sent := 0
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
		kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	acks := []struct {
		acks       kgo.Acks
		idempotent bool
	}{{kgo.AllISRAcks(), true}, {kgo.AllISRAcks(), false}, {kgo.LeaderAck(), false}}
	for _, codec := range codecs {
		for _, a := range acks {
			options := append(seeds(servers),
				kgo.DefaultProduceTopic(topic),
				kgo.ProducerBatchCompression(codec), kgo.RequiredAcks(a.acks),
				kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if !a.idempotent {
				options = append(options, kgo.DisableIdempotentWrite())
			}
			client, err := kgo.NewClient(options...)
			check(err, "producer")
			var records []*kgo.Record
			for range perCodec {
				records = append(records, record(sent))
				sent++
			}
			check(client.ProduceSync(ctx, records...).FirstErr(), "produce")
			client.Close()
		}
	}
	return sent
}

func consume(ctx context.Context, servers, topic string, total int) {
	client, err := kgo.NewClient(append(seeds(servers), kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	check(err, "consumer")
	defer client.Close()
	for seen := 0; seen < total; {
		fetches := client.PollFetches(ctx)
		for _, problem := range fetches.Errors() {
			check(problem.Err, "fetch")
		}
		fetches.EachRecord(func(got *kgo.Record) {
			want := record(seen)
			expect(got.Offset == int64(seen), "offset %d, got %d", seen, got.Offset)
			expect(bytes.Equal(got.Key, want.Key) && (got.Key == nil) == (want.Key == nil),
				"key %q, got %q", want.Key, got.Key)
			expect(bytes.Equal(got.Value, want.Value) && (got.Value == nil) == (want.Value == nil),
				"value %q, got %q", want.Value, got.Value)
			expect(got.Timestamp.Equal(want.Timestamp), "time %v, got %v", want.Timestamp, got.Timestamp)
			expect(len(got.Headers) == 2 && got.Headers[1].Value == nil, "headers %v", got.Headers)
			seen++
		})
	}
}

func administer(ctx context.Context, admin *kadm.Client, topic string, total int) {
	found, err := admin.ListOffsetsAfterMilli(ctx, start.Add(30*time.Second).UnixMilli(), topic)
	check(err, "offsets by time")
	at, _ := found.Lookup(topic, 0)
	expect(at.Err == nil && at.Offset == 30, "offset 30 at 30 s, got %d (%v)", at.Offset, at.Err)

	five := "5000000"
	altered, err := admin.AlterTopicConfigs(ctx,
		[]kadm.AlterConfig{{Name: "retention.ms", Value: &five}}, topic)
	check(err, "alter configs")
	check(altered[0].Err, "alter configs")
	kept := ""
	// What a broker knows may follow the controller a little later.
	for kept != five && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		configs, err := admin.DescribeTopicConfigs(ctx, topic)
		check(err, "describe configs")
		for _, config := range configs[0].Configs {
			if config.Key == "retention.ms" {
				kept = config.MaybeValue()
			}
		}
	}
	expect(kept == five, "retention.ms %s, got %q", five, kept)

	var trim kadm.Offsets = make(kadm.Offsets)
	trim.AddOffset(topic, 0, 10, -1)
	trimmed, err := admin.DeleteRecords(ctx, trim)
	check(err, "delete records")
	check(trimmed.Error(), "delete records")
	starts, err := admin.ListStartOffsets(ctx, topic)
	check(err, "start offsets")
	first, _ := starts.Lookup(topic, 0)
	expect(first.Offset == 10, "start offset 10, got %d", first.Offset)

	_, err = admin.CreatePartitions(ctx, 2, topic)
	check(err, "add partitions")
	// Created means the controller knows; the broker's own metadata may follow a little later.
	for {
		details, err := admin.ListTopics(ctx, topic)
		check(err, "list topics")
		if len(details[topic].Partitions) == 3 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	deleted, err := admin.DeleteTopic(ctx, topic)
	check(err, "delete topic")
	check(deleted.Err, "delete topic")
}

func main() {
	if len(os.Args) < 3 {
		check(errors.New("franz SERVERS TOPIC [write | read COUNT]"), "usage")
	}
	servers, topic, more := os.Args[1], os.Args[2], os.Args[3:]
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	switch {
	case len(more) == 1 && more[0] == "write":
		write(ctx, servers, topic)
	case len(more) == 2 && more[0] == "read":
		count, err := strconv.Atoi(more[1])
		check(err, "count")
		read(ctx, servers, topic, count)
	default:
		visit(ctx, servers, topic)
	}
}

func visit(ctx context.Context, servers, topic string) {
	client, err := kgo.NewClient(seeds(servers)...)
	check(err, "client")
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(ctx, 1, replicas(), nil, topic)
	check(err, "create topic")
	_, err = admin.CreateTopic(ctx, 1, replicas(), nil, topic)
	expect(err != nil, "a second topic of the same name is refused")
	total := produce(ctx, servers, topic)
	consume(ctx, servers, topic, total)
	administer(ctx, admin, topic, total)
	fmt.Println("ok")
}
