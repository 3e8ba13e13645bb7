package tracing

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bufferSize is the size in bytes of the memory for the events of one processor. It has room for about 19,000
// events. It must be a power of two.
const bufferSize = 2 << 20

// fullMargin is the number of bytes at the end of the memory that must be free after a recording. Otherwise the
// memory may have been full, and events may be missing. It is more than the size of any record.
const fullMargin = 4096

// Recorder records events of all processors.
type Recorder struct {
	decoder decoder
	cpus    []*cpuBuffer
}

// cpuBuffer is the memory to which the kernel writes the events of one processor.
type cpuBuffer struct {
	fds    []int // one for each tracepoint; the memory belongs to the first
	memory []byte
}

// Open prepares a recording. The caller must close the Recorder. Open returns ErrNotPermitted if this process is
// not allowed to record events.
func Open() (_ *Recorder, err error) {
	fs, err := openTraceFS()
	if err != nil {
		return nil, err
	}
	defer fs.close()
	r := &Recorder{decoder: decoder{points: map[uint64]decodeFunc{}, local: map[int]int{}}}
	var ids []uint64
	for _, p := range points {
		t, err := fs.find(p.name)
		if err != nil {
			return nil, err
		}
		if err := t.require(p.fields...); err != nil {
			return nil, err
		}
		r.decoder.points[t.ID] = p.decoder(t)
		ids = append(ids, t.ID)
	}
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	for _, cpu := range cpus {
		b, err := openCPU(cpu, ids)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.cpus = append(r.cpus, b)
	}
	return r, nil
}

// tracepointUse is a tracepoint with the fields that Event needs.
type tracepointUse struct {
	name   string
	fields []string
	set    func(e *Event, v []int64) // v are the values of the fields
}

var points = []tracepointUse{
	{"sched/sched_switch", []string{"next_pid", "prev_state"}, func(e *Event, v []int64) {
		e.Kind, e.Other, e.Asleep = Switch, int(v[0]), v[1]&sleepStates != 0
	}},
	{"sched/sched_waking", []string{"pid"}, func(e *Event, v []int64) { e.Kind, e.Other = Wake, int(v[0]) }},
	{"raw_syscalls/sys_enter", []string{"id"}, func(e *Event, v []int64) { e.Kind, e.Call = Enter, v[0] }},
	{"raw_syscalls/sys_exit", []string{"id", "ret"}, func(e *Event, v []int64) { e.Kind, e.Call, e.Result = Exit, v[0], v[1] }},
}

// sleepStates are the bits of prev_state for all states in which a thread waits. A thread that was preempted has
// none of them.
const sleepStates = 0xff

// decoder returns a function that decodes the events of a tracepoint.
func (p *tracepointUse) decoder(t *Tracepoint) decodeFunc {
	return func(data []byte, e *Event) bool {
		var v [2]int64
		for k, name := range p.fields {
			var ok bool
			if v[k], ok = t.value(data, name); !ok {
				return false
			}
		}
		p.set(e, v[:])
		return true
	}
}

// onlineCPUs returns the numbers of the processors that are in use.
func onlineCPUs() ([]int, error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return parseCPUs(strings.TrimSpace(string(text)))
}

// parseCPUs parses a list such as 0-3,8.
func parseCPUs(list string) (cpus []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, several := strings.Cut(part, "-")
		if !several {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("list of processors %q: %w", list, err)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}

// openCPU opens the tracepoints on a processor. All write to the same memory.
func openCPU(cpu int, ids []uint64) (*cpuBuffer, error) {
	b := &cpuBuffer{}
	for _, id := range ids {
		a := unix.PerfEventAttr{
			Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Sample: 1, Sample_type: sampleType,
			Bits: unix.PerfBitDisabled | unix.PerfBitUseClockID, Clockid: unix.CLOCK_MONOTONIC,
		}
		a.Size = uint32(unsafe.Sizeof(a))
		fd, err := unix.PerfEventOpen(&a, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			b.close()
			return nil, OpenError(err)
		}
		b.fds = append(b.fds, fd)
		if len(b.fds) == 1 {
			b.memory, err = unix.Mmap(fd, 0, os.Getpagesize()+bufferSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		} else {
			err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, b.fds[0])
		}
		if err != nil {
			b.close()
			return nil, fmt.Errorf("memory for the events of processor %d: %w", cpu, err)
		}
	}
	return b, nil
}

// OpenError returns an error for the failure err of perf_event_open. It wraps ErrNotPermitted if the kernel does
// not allow this process to use the event.
func OpenError(err error) error {
	for _, refused := range []error{unix.EACCES, unix.EPERM, unix.ENOSYS, unix.ENOENT} {
		if errors.Is(err, refused) {
			return fmt.Errorf("%w: perf_event_open: %w", ErrNotPermitted, err)
		}
	}
	return os.NewSyscallError("perf_event_open", err)
}

// control starts or stops all tracepoints of the processor.
func (b *cpuBuffer) control(request uint) error {
	for _, fd := range b.fds {
		if err := unix.IoctlSetInt(fd, request, 0); err != nil {
			return os.NewSyscallError("ioctl of a tracepoint", err)
		}
	}
	return nil
}

func (b *cpuBuffer) close() {
	if b.memory != nil {
		_ = unix.Munmap(b.memory)
	}
	for _, fd := range b.fds {
		_ = unix.Close(fd) // closing a tracepoint cannot fail
	}
}

// records returns the records, and whether the memory was full.
func (b *cpuBuffer) records() (records []byte, full bool) {
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(b.memory)))
	n := atomic.LoadUint64(&page.Data_head)
	return b.memory[os.Getpagesize():][:min(n, bufferSize)], n > bufferSize-fullMargin
}

// Close ends the recording and releases its memory.
func (r *Recorder) Close() {
	for _, b := range r.cpus {
		b.close()
	}
	r.cpus = nil
}

// Start starts the recording.
func (r *Recorder) Start() error { return r.control(unix.PERF_EVENT_IOC_ENABLE) }

func (r *Recorder) control(request uint) error {
	for _, b := range r.cpus {
		if err := b.control(request); err != nil {
			return err
		}
	}
	return nil
}

// ErrLost is returned if the kernel had no room for all events.
var ErrLost = errors.New("the kernel had no room for all events")

// Stop ends the recording and returns its events in the order of their times. It returns ErrLost if events are
// missing. It must be called at most once.
func (r *Recorder) Stop() ([]Event, error) {
	if err := r.control(unix.PERF_EVENT_IOC_DISABLE); err != nil {
		return nil, err
	}
	for _, b := range r.cpus {
		records, full := b.records()
		if err := r.decoder.decode(records); err != nil {
			return nil, err
		}
		if full || r.decoder.lost > 0 {
			return nil, ErrLost
		}
	}
	r.decoder.finish()
	events := r.decoder.events
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events, nil
}
