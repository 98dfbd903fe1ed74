package main

import (
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

type zooKeeperNode struct {
	connection *zk.Conn
	address    string
}

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

func dialZooKeeper(address string) (node, error) {
	// A dead node is seen by its closed socket; a silent one after two thirds of the session's timeout.
	connection, _, err := zk.Connect([]string{address}, 6*time.Second, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	return &zooKeeperNode{connection, address}, err
}

func (n *zooKeeperNode) leads() bool {
	connection, err := net.DialTimeout("tcp", n.address, time.Second)
	if err != nil {
		return false
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(2 * time.Second))
	connection.Write([]byte("srvr"))
	answer, _ := io.ReadAll(connection)
	return strings.Contains(string(answer), "Mode: leader")
}

func (n *zooKeeperNode) write(key string, value []byte) error {
	_, err := n.connection.Set("/"+key, value, -1)
	if err == zk.ErrNoNode {
		_, err = n.connection.Create("/"+key, value, 0, zk.WorldACL(zk.PermAll))
	}
	return err
}

// A read alone may be stale: `sync` first, which is as near to linearizable as ZooKeeper comes.
func (n *zooKeeperNode) read(key string) error {
	if _, err := n.connection.Sync("/" + key); err != nil {
		return err
	}
	_, _, err := n.connection.Get("/" + key)
	return err
}

func (n *zooKeeperNode) close() { n.connection.Close() }
