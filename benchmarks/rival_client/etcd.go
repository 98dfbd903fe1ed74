package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

type etcdNode struct {
	client  *clientv3.Client
	address string
}

func dialEtcd(address string) (node, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: time.Second})
	return &etcdNode{client, address}, err
}

func (n *etcdNode) leads() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	status, err := n.client.Status(ctx, n.address)
	return err == nil && status.Leader == status.Header.MemberId
}

func (n *etcdNode) write(key string, value []byte) error {
	_, err := n.client.Put(context.Background(), key, string(value))
	return err
}

// Gets are linearizable unless asked otherwise.
func (n *etcdNode) read(key string) error {
	_, err := n.client.Get(context.Background(), key)
	return err
}

func (n *etcdNode) close() { n.client.Close() }
