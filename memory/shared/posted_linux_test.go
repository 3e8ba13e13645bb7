package shared

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A waiting client sees each submission carried out, whenever lnetd reports it: while the client prepares,
// checks, or sleeps.
//
// transport 9.6 (1)
func TestPosted(t *testing.T) {
	rounds := uint32(20_000)
	if testing.Short() {
		rounds = 2_000
	}
	h, c := newPair(t, 4, 4)
	host, client := ends(h, c)
	done := make(chan error, 1)
	go func() {
		for n := range rounds {
			if err := host.receive(n); err != nil {
				done <- err
				return
			}
			delay(host.random)
			if h.Submissions.MarkPosted() {
				delay(host.random)
				h.Submissions.WakePosted()
			}
		}
		done <- nil
	}()
	for n := range rounds {
		if err := client.send(n); err != nil {
			t.Fatal(err)
		}
		for at := c.Submissions.Published(); !c.Submissions.Posted(at); {
			c.Submissions.PrepareWait()
			delay(client.random)
			if !c.Submissions.Posted(at) {
				c.Submissions.WaitPosted(time.Hour)
			}
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Submissions that lnetd has only copied are not carried out: SQ head does not affect SQ posted. The
// counter wraps around at 2^32 like the others.
func TestPostedIsNotReleased(t *testing.T) {
	h, c := newPair(t, 4, 4)
	for _, l := range lanes(h, c, 2)[:1] {
		h.Submissions.MarkPosted() // lanes has moved the counters
		for n := range uint32(3) {
			_, _ = l.put(n)
		}
		l.producer.Publish()
		at := c.Submissions.Published()
		for range 3 {
			_, _, _ = l.next()
			l.consumer.Release()
		}
		if c.Submissions.Posted(at) {
			t.Error("posted when it was taken")
		}
		if h.Submissions.MarkPosted() {
			t.Error("a client is to be woken that does not wait")
		}
		for n := range uint32(3) {
			if !c.Submissions.Posted(at - n) {
				t.Errorf("position %#x is not posted", at-n)
			}
		}
		if c.Submissions.Posted(at + 1) {
			t.Error("more is posted than was submitted")
		}
	}
}

// WakePosted ends a wait, even between PrepareWait and WaitPosted, and so does the timeout. Each wait needs
// a PrepareWait.
func TestWaitPostedEnds(t *testing.T) {
	h, c := newPair(t, 4, 4)
	c.Submissions.PrepareWait()
	c.Submissions.WakePosted()
	c.Submissions.WaitPosted(time.Hour)
	c.Submissions.PrepareWait()
	if !h.Submissions.MarkPosted() || h.Submissions.MarkPosted() {
		t.Error("lnetd is to wake a client once")
	}
	c.Submissions.WaitPosted(time.Hour)
	c.Submissions.PrepareWait()
	c.Submissions.WaitPosted(time.Microsecond)
}

// writes returns a function give whose calls return the given errnos in order, and their number.
func writes(all ...unix.Errno) (give func(uintptr) unix.Errno, n *int) {
	n = new(int)
	return func(uintptr) unix.Errno {
		e := all[min(*n, len(all)-1)]
		*n++
		return e
	}, n
}

// A token that fails for lack of kernel memory is written again until it succeeds, because the claim is
// used up and the consumer would sleep forever. If there are enough tokens, or no reader, wake does not
// retry.
func TestWakeWithoutMemory(t *testing.T) {
	for name, c := range map[string]struct {
		errnos []unix.Errno
		want   int
	}{
		"at once":         {[]unix.Errno{0}, 1},
		"interrupted":     {[]unix.Errno{unix.EINTR, unix.EINTR, 0}, 3},
		"no memory":       {[]unix.Errno{unix.ENOMEM, unix.ENOMEM, 0}, 3},
		"no buffers":      {[]unix.Errno{unix.ENOBUFS, unix.EINTR, unix.ENOBUFS, 0}, 4},
		"tokens enough":   {[]unix.Errno{unix.EAGAIN}, 1},
		"nobody":          {[]unix.Errno{unix.EPIPE}, 1},
		"then it is shut": {[]unix.Errno{unix.ENOBUFS, unix.EPIPE}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r waker
				give, n := writes(c.errnos...)
				r.init(-1, nil, give)
				r.sendToken()
				time.Sleep(time.Second) // simulated
				synctest.Wait()
				if *n != c.want {
					t.Errorf("written %d times, not %d", *n, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var r waker
		give, n := writes(unix.ENOMEM)
		r.init(-1, nil, give)
		for range 5 { // several calls share one timer
			r.sendToken()
		}
		time.Sleep(wakeRetry)
		synctest.Wait()
		if *n != 6 {
			t.Errorf("written %d times", *n)
		}
		r.descriptor.close()
		time.Sleep(time.Second)
		if *n != 6 {
			t.Errorf("written %d times, though the end is shut", *n)
		}
	})
}
