package c

import (
	"flag"
	"strconv"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/mem"
)

const threads = "testdata/threads.c"

var (
	exchanges = flag.Int("exchanges", 100_000, "number of exchanges of TestWakeups")
	limit     = flag.Int("limit", 15, "time limit of TestWakeups in seconds, which ends it successfully; 0: no limit")
)

// Two threads that wait for each other's messages are woken by each of them, while other threads look at
// the rings with lnetd_pending.
//
// transport 9.6 (1)
func TestWakeups(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		_, path := tmpeer.Serve(t, mem.New(mem.Config{}).Host(home))
		seconds := *limit
		if v.name != variants[0].name {
			seconds /= 5
		}
		v.run(t, threads, "wakeups", path, strconv.Itoa(testenv.Fewer(*exchanges)), strconv.Itoa(testenv.Fewer(seconds)))
	})
}

// Several threads submit operations of one TM, some of them in batches, and several take its events. No message is
// lost.
//
// transport 9.6 (1)
func TestThreads(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		_, path := tmpeer.Serve(t, inproc.New(tmpeer.StartNode(t, home)))
		n := 20_000
		if v.isSlow() {
			n /= 10
		}
		v.run(t, threads, "many", path, strconv.Itoa(testenv.Fewer(n)))
	})
}

// lnetd_sync does not wait for operations that another thread adds to a batch meanwhile.
//
// transport 9.6 (1)
func TestSyncMeanwhile(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		_, path := tmpeer.Serve(t, mem.New(mem.Config{}).Host(home))
		v.run(t, threads, "sync", path, strconv.Itoa(testenv.Fewer(50)))
	})
}

// Two buffers receive 10,240 messages each with the default ring of 1,024 completions. All messages arrive
// before the first event is taken. Each comes, in order.
//
// transport 9.5
func TestFlood(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		_, path := tmpeer.Serve(t, mem.New(mem.Config{}).Host(home))
		v.run(t, threads, "flood", path, "20480")
	})
}
