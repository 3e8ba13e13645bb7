package tracing

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events.
const (
	Switch Kind = iota // the thread stops running, and Other runs on the processor
	Wake               // the thread, or an interrupt while it runs, wakes Other
	Enter              // the thread begins the system call Call
	Exit               // the system call Call of the thread ends with Result
)

// Event is something that happened on a processor.
type Event struct {
	At   int64 // time of CLOCK_MONOTONIC in nanoseconds
	Kind Kind
	CPU  int
	// TID is the thread that was running, and Other is the thread of a Switch or Wake. 0 is no thread: the
	// processor was idle. Threads of other PID namespaces may have any number that this process does not use.
	TID, Other int
	// Asleep is set for a Switch if the thread stops until it is woken. Otherwise it could continue.
	Asleep bool
	// Call and Result are the number and the result of a system call. A result from -4095 to -1 is an error.
	Call, Result int64
}

// errRecord is returned for data that is no sequence of records.
var errRecord = errors.New("the kernel's record of events is invalid")

// headerSize is the size of the header of a record: a 32-bit type, 16 bits that are not used here, and a 16-bit
// size that includes the header.
const headerSize = 8

// sampleType selects the contents of a sample. sampleSize is the size of what precedes an event's data: process
// and thread, time, processor, and the size of the data.
const (
	sampleType = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_RAW
	sampleSize = 8 + 8 + 8 + 4
)

// decoder decodes the records of one or more processors.
type decoder struct {
	points map[uint64]decodeFunc // by the number of the tracepoint
	events []Event
	lost   uint64
	// local has the number that a thread has in this process's PID namespace, by its number in the first
	// namespace. Records have both numbers of the running thread only.
	local map[int]int
}

// decodeFunc sets the fields of e from the data of an event. It returns false if data is too short.
type decodeFunc func(data []byte, e *Event) bool

// decode decodes records, which must be complete. It returns an error that wraps errRecord if they are invalid; the
// events before the invalid record are kept.
func (d *decoder) decode(b []byte) error {
	for len(b) > 0 {
		if len(b) < headerSize {
			return fmt.Errorf("%w: %d bytes are left", errRecord, len(b))
		}
		typ, size := binary.NativeEndian.Uint32(b), int(binary.NativeEndian.Uint16(b[6:]))
		if size < headerSize || size > len(b) {
			return fmt.Errorf("%w: a record of %d bytes, where %d are left", errRecord, size, len(b))
		}
		body := b[headerSize:size]
		b = b[size:]
		switch typ {
		case unix.PERF_RECORD_SAMPLE:
			if err := d.sample(body); err != nil {
				return err
			}
		case unix.PERF_RECORD_LOST:
			if len(body) < 16 {
				return fmt.Errorf("%w: a count of lost events has %d bytes", errRecord, len(body))
			}
			d.lost += binary.NativeEndian.Uint64(body[8:])
		}
	}
	return nil
}

// sample decodes one event.
func (d *decoder) sample(b []byte) error {
	if len(b) < sampleSize {
		return fmt.Errorf("%w: an event has %d bytes", errRecord, len(b))
	}
	tid := int(int32(binary.NativeEndian.Uint32(b[4:])))
	e := Event{At: int64(binary.NativeEndian.Uint64(b[8:])), CPU: int(binary.NativeEndian.Uint32(b[16:]))}
	size := uint64(binary.NativeEndian.Uint32(b[24:]))
	data := b[sampleSize:]
	if size > uint64(len(data)) || size < commonSize {
		return fmt.Errorf("%w: an event has %d bytes of data, of which it contains %d", errRecord, size, len(data))
	}
	data = data[:size]
	f := d.points[uint64(binary.NativeEndian.Uint16(data))]
	if f == nil {
		return nil
	}
	e.TID = int(int32(binary.NativeEndian.Uint32(data[4:])))
	if !f(data, &e) {
		return fmt.Errorf("%w: an event has %d bytes of data", errRecord, size)
	}
	d.local[e.TID] = tid
	d.events = append(d.events, e)
	return nil
}

// commonSize is the size of the fields that all events begin with: the 16-bit number of the tracepoint, 16 bits
// that are not used here, and the 32-bit number of the running thread in the first PID namespace.
const commonSize = 8

// finish replaces the numbers of threads by those of this process's PID namespace.
func (d *decoder) finish() {
	for k := range d.events {
		e := &d.events[k]
		e.TID = d.localTID(e.TID)
		e.Other = d.localTID(e.Other)
	}
}

// localTID returns the number of a thread in this process's PID namespace. A thread that was never seen running
// keeps its number. A thread of another namespace gets a negative one.
func (d *decoder) localTID(tid int) int {
	local, ok := d.local[tid]
	if ok && local <= 0 && tid != 0 {
		return -tid
	}
	if ok {
		return local
	}
	return tid
}
