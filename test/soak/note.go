package soak

import (
	"encoding/gob"
	"io"
	"sync"
)

// topic is the subject of a note.
type topic uint8

const (
	noteConfig  topic = iota // parent: the configuration; the child creates its node
	noteReady                // child: its node can be reached
	noteStart                // parent: begin
	notePage                 // a page of the sender's account is settled
	noteSample               // child: a sample
	noteStop                 // parent: begin no more operations, and drain
	noteDrained              // all operations have ended
	noteFlushed              // all pages have been sent
	noteReport               // child: its node is closed; the report
)

// note is a message between the processes. The topic determines which fields are used.
type note struct {
	Topic  topic
	Config Config
	Page   uint64
	Acked  *bitmap
	Sample Sample
	Report Report
}

// notes are the pipes to the other process. Writing is safe for concurrent use.
type notes struct {
	mu  sync.Mutex // held while out writes; in has one reader
	out *gob.Encoder
	in  *gob.Decoder
}

func newNotes(in io.Reader, out io.Writer) *notes {
	return &notes{in: gob.NewDecoder(in), out: gob.NewEncoder(out)}
}

func (n *notes) write(x *note) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.out.Encode(x)
}

func (n *notes) read() (*note, error) {
	x := new(note)
	if err := n.in.Decode(x); err != nil {
		return nil, err
	}
	return x, nil
}
