// The benchmark's etcd client: puts over gRPC, in a process of its own.
//
// Usage: etcd_client ENDPOINTS IN_FLIGHT SECONDS RECORD_BYTES; prints one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func main() {
	endpoints := strings.Split(os.Args[1], ",")
	inFlight, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.ParseFloat(os.Args[3], 64)
	size, _ := strconv.Atoi(os.Args[4])
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints[:1], DialTimeout: 5 * time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// As quorate's client does: talk to the leader itself.
	for _, endpoint := range endpoints {
		status, err := client.Status(context.Background(), endpoint)
		if err == nil && status.Leader == status.Header.MemberId {
			client.Close()
			client, _ = clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
			break
		}
	}
	value := strings.Repeat("x", size)
	if _, err := client.Put(context.Background(), "warm-up", value); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	started := time.Now()
	end := started.Add(time.Duration(seconds * float64(time.Second)))
	var all []float64
	var lock sync.Mutex
	var workers sync.WaitGroup
	for worker := 0; worker < inFlight; worker++ {
		workers.Add(1)
		go func(key string) {
			defer workers.Done()
			var latencies []float64
			for now := time.Now(); now.Before(end); {
				if _, err := client.Put(context.Background(), key, value); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				then := now
				now = time.Now()
				latencies = append(latencies, now.Sub(then).Seconds()*1000)
			}
			lock.Lock()
			all = append(all, latencies...)
			lock.Unlock()
		}(fmt.Sprintf("key-%d", worker))
	}
	workers.Wait()
	elapsed := time.Since(started).Seconds()
	sort.Float64s(all)
	json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"commits_per_second": float64(len(all)) / elapsed,
		"p50_ms":             all[len(all)/2],
		"p99_ms":             all[len(all)*99/100],
	})
}
