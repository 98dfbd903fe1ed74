package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Frames to and from pysyncobj_node.py: length (4), number (4), kind (1), key length (1), key, value; the answer
// is length (4), number (4), status (1).
const (
	kindWrite = 'w'
	kindLeads = 'l'
)

type pySyncObjNode struct {
	connection net.Conn
	lock       sync.Mutex
	number     uint32
	waiting    map[uint32]chan byte
	broken     error
}

func dialPySyncObj(address string) (node, error) {
	connection, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return nil, err
	}
	n := &pySyncObjNode{connection: connection, waiting: map[uint32]chan byte{}}
	go n.receive()
	return n, nil
}

func (n *pySyncObjNode) receive() {
	reader := bufio.NewReader(n.connection)
	for {
		var frame [9]byte
		_, err := io.ReadFull(reader, frame[:])
		n.lock.Lock()
		if err != nil {
			n.broken = err
			for _, waiter := range n.waiting {
				close(waiter)
			}
			n.waiting = nil
			n.lock.Unlock()
			return
		}
		number := binary.BigEndian.Uint32(frame[4:])
		waiter := n.waiting[number]
		delete(n.waiting, number)
		n.lock.Unlock()
		waiter <- frame[8]
	}
}

func (n *pySyncObjNode) ask(kind byte, key string, value []byte) error {
	waiter := make(chan byte, 1)
	frame := make([]byte, 0, 10+len(key)+len(value))
	frame = binary.BigEndian.AppendUint32(frame, uint32(6+len(key)+len(value)))
	n.lock.Lock()
	if n.broken != nil {
		n.lock.Unlock()
		return n.broken
	}
	n.number++
	n.waiting[n.number] = waiter
	frame = binary.BigEndian.AppendUint32(frame, n.number)
	frame = append(append(append(frame, kind, byte(len(key))), key...), value...)
	_, err := n.connection.Write(frame)
	n.lock.Unlock()
	if err != nil {
		return err
	}
	if status, open := <-waiter; !open || status != 0 {
		return errors.New("not committed")
	}
	return nil
}

func (n *pySyncObjNode) leads() bool                          { return n.ask(kindLeads, "", nil) == nil }
func (n *pySyncObjNode) write(key string, value []byte) error { return n.ask(kindWrite, key, value) }
func (n *pySyncObjNode) read(string) error                    { return errUnsupported }
func (n *pySyncObjNode) close()                               { n.connection.Close() }
