package soak

import (
	"encoding/gob"
	"io"
	"sync"
)

// topic is the subject of a note.
type topic uint8

const (
	noteConfig  topic = iota // from the parent: the configuration, with which the child creates its node
	noteReady                // from the child: its node can be reached
	noteStart                // from the parent: start sending
	notePage                 // from both: all messages of a page have ended at the sender
	noteSample               // from the child: a sample
	noteStop                 // from the parent: start no more operations
	noteDrained              // from both: all operations have ended
	noteFlushed              // from both: all pages were sent
	noteReport               // from the child: its node is closed, and this is its report
)

// note is a message between the two processes. Its topic determines which other fields are set.
type note struct {
	Topic  topic
	Config Config
	Page   uint64
	Acked  *bitmap
	Sample Sample
	Report Report
}

// notes are the pipes to the other process. write is safe for concurrent use, read is not.
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
