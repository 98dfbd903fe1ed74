// The benchmark's client of the systems that quorate is compared with, in a process of its own, over TCP.
// In Go, so that the client is not what limits them.
//
// Usage: rival_client SYSTEM ADDRESS,ADDRESS,...; one JSON command a line in, one JSON answer a line out.
// The commands are those of quorum_client.py.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"
)

// A node is one member of a system, reached by a connection of its own.
type node interface {
	leads() bool
	write(key string, value []byte) error
	// read is linearizable, or returns errUnsupported.
	read(key string) error
	close()
}

type dialer func(address string) (node, error)

var systems = map[string]dialer{"etcd": dialEtcd, "zookeeper": dialZooKeeper, "pysyncobj": dialPySyncObj}

var errUnsupported = fmt.Errorf("unsupported")

type command struct {
	Do       string  `json:"do"`
	InFlight int     `json:"in_flight"`
	Size     int     `json:"size"`
	Seconds  float64 `json:"seconds"`
	Count    int     `json:"count"`
	BucketMs int     `json:"bucket_ms"`
	Distinct bool    `json:"distinct"`
}

type client struct {
	dial      dialer
	addresses []string
	leader    node
	number    int
	leads     bool // or it only was the first to commit
	written   int
}

func main() {
	dial, known := systems[os.Args[1]]
	if !known {
		fatal(fmt.Errorf("no such system: %s", os.Args[1]))
	}
	c := &client{dial: dial, addresses: strings.Split(os.Args[2], ",")}
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked command
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fatal(err)
		}
		answers.Encode(c.answer(asked))
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func (c *client) answer(asked command) map[string]any {
	switch asked.Do {
	case "ready":
		return map[string]any{}
	case "leader":
		c.connected()
		return map[string]any{"leader": c.number}
	case "commit":
		c.commit()
		return map[string]any{"leader": c.number}
	case "write":
		return c.measureWrites(asked)
	case "read":
		return c.measureReads(asked)
	}
	fatal(fmt.Errorf("no such command: %s", asked.Do))
	return nil
}

func (c *client) connected() node {
	if c.leader == nil {
		c.commit()
	}
	if !c.leads {
		c.toLeader()
	}
	return c.leader
}

// commit tries all nodes at once until one commits; that one is the leader or forwards to it.
func (c *client) commit() {
	if c.leader != nil {
		go c.leader.close()
		c.leader = nil
	}
	type winner struct {
		number int
		node   node
	}
	won := make(chan winner, len(c.addresses))
	done := make(chan struct{})
	for index, address := range c.addresses {
		go func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				member, err := c.dial(address)
				if err == nil {
					if tryFor(member, 300*time.Millisecond) {
						won <- winner{index + 1, member}
						return
					}
					go member.close()
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	first := <-won
	close(done)
	c.leader, c.number, c.leads = first.node, first.number, false
	go func() {
		time.Sleep(10 * time.Second)
		for {
			select {
			case late := <-won:
				go late.node.close()
			default:
				return
			}
		}
	}()
}

// tryFor writes until one write commits, for so long; one that is not answered is left to itself.
func tryFor(member node, patience time.Duration) bool {
	committed := make(chan bool, 1)
	until := time.Now().Add(patience)
	go func() {
		for time.Now().Before(until) {
			if member.write("commit", []byte("x")) == nil {
				committed <- true
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		committed <- false
	}()
	select {
	case done := <-committed:
		return done
	case <-time.After(patience):
		return false
	}
}

// toLeader talks to the leader itself, as quorate's client does.
func (c *client) toLeader() {
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		for index, address := range c.addresses {
			member, err := c.dial(address)
			if err != nil {
				continue
			}
			if member.leads() {
				go c.leader.close()
				c.leader, c.number, c.leads = member, index+1, true
				return
			}
			go member.close()
		}
	}
	fatal(fmt.Errorf("no node says that it leads"))
}

func (c *client) measureWrites(asked command) map[string]any {
	leader := c.connected()
	value := []byte(strings.Repeat("x", asked.Size))
	var lock sync.Mutex
	return measure(asked, func(worker int) func() error {
		key := fmt.Sprintf("%08x", worker)
		if !asked.Distinct {
			return func() error { return leader.write(key, value) }
		}
		return func() error {
			lock.Lock()
			c.written++
			key := fmt.Sprintf("%08d", c.written)
			lock.Unlock()
			return leader.write(key, value)
		}
	})
}

func (c *client) measureReads(asked command) map[string]any {
	leader := c.connected()
	if err := leader.read("commit"); err == errUnsupported {
		return map[string]any{"unsupported": "no linearizable reads"}
	}
	return measure(asked, func(int) func() error { return func() error { return leader.read("commit") } })
}

// measure runs InFlight workers, one operation of each under way, for Seconds or Count operations in all.
func measure(asked command, workerOf func(int) func() error) map[string]any {
	each := asked.Count / asked.InFlight
	var workers sync.WaitGroup
	var lock sync.Mutex
	var all, ends []float64
	operations := make([]func() error, asked.InFlight)
	for worker := range operations {
		operations[worker] = workerOf(worker)
	}
	started := time.Now()
	end := started.Add(time.Duration(asked.Seconds * float64(time.Second)))
	for _, operation := range operations {
		workers.Add(1)
		go func() {
			defer workers.Done()
			var latencies, mine []float64
			for now := time.Now(); (each == 0 && now.Before(end)) || len(latencies) < each; {
				if err := operation(); err != nil {
					fatal(err)
				}
				then := now
				now = time.Now()
				latencies = append(latencies, now.Sub(then).Seconds()*1000)
				if asked.BucketMs > 0 {
					mine = append(mine, now.Sub(started).Seconds()*1000)
				}
			}
			lock.Lock()
			all, ends = append(all, latencies...), append(ends, mine...)
			lock.Unlock()
		}()
	}
	workers.Wait()
	elapsed := time.Since(started).Seconds()
	sort.Float64s(all)
	count := len(all)
	at := func(share float64) float64 { return all[int(float64(count)*share)] }
	answer := map[string]any{
		"operations": count, "elapsed_s": elapsed, "per_second": float64(count) / elapsed,
		"p50_ms": at(0.5), "p99_ms": at(0.99), "p999_ms": at(0.999),
	}
	if asked.BucketMs > 0 {
		buckets := make([]int, int(elapsed*1000)/asked.BucketMs+1)
		for _, ended := range ends {
			buckets[int(ended)/asked.BucketMs]++
		}
		answer["buckets"] = buckets[:len(buckets)-1]
	}
	return answer
}
