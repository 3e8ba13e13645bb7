package job

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnet"
)

// startTag is the tag of the messages that rank 0 of two jobs exchange at the start.
const startTag = 1

var errNoPID = errors.New("the proxies have not allocated a PID for the application")

// join connects the jobs of an application and its proxies, and exchanges the records of their processes (MPI-14).
func (s *starter) join(ctx context.Context, own []byte) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	theirs := make([]byte, recordSize*s.other.Size())
	if s.comm.Rank() == 0 {
		if err := s.swap(own, theirs); err != nil {
			return fmt.Errorf("exchange the addresses with the other job: %w", err)
		}
	}
	if err := s.comm.Broadcast(theirs, 0); err != nil {
		return fmt.Errorf("broadcast the addresses of the other job: %w", err)
	}
	clients, proxies := own, theirs
	if s.config.Proxy != nil {
		clients, proxies = theirs, own
	}
	n, m := len(clients)/recordSize, len(proxies)/recordSize
	s.groups = []group{{0, n}, {n, m}}
	if s.config.Proxy != nil {
		s.groups = []group{{n, m}, {0, n}}
	}
	var err error
	s.all, err = readRoster(append(append([]byte{}, clients...), proxies...), false)
	if err == nil && (len(s.all.clients()) != n || len(s.all.proxies()) != m) {
		err = errors.New("one of two connected jobs must be the application, and the other one its proxies")
	}
	return err
}

// connect connects to the other job, starts it, or waits until it has connected.
func (s *starter) connect(ctx context.Context) (err error) {
	switch {
	case s.config.Spawn != nil:
		if s.other, err = s.mpi.Spawn(*s.config.Spawn); err != nil {
			p := s.config.Spawn
			return fmt.Errorf("start the proxies %s on %s (mpirun must know these hosts, and have a free slot on each): %w",
				p.Path, strings.Join(p.Hosts, ","), err)
		}
		return nil
	case s.config.Spawned:
		if s.other, err = s.mpi.Parent(); err != nil {
			return fmt.Errorf("connect to the application: %w", err)
		}
		return nil
	}
	var port string
	first := s.comm.Rank() == 0
	if s.config.Connect != nil {
		if first {
			if port, err = s.config.Connect(ctx); err != nil {
				return fmt.Errorf("the port of the proxies: %w", err)
			}
		}
		if s.other, err = s.mpi.Connect(port); err != nil {
			return fmt.Errorf("connect to the proxies at port %q: %w", port, err)
		}
		return nil
	}
	if first {
		if port, err = s.mpi.OpenPort(); err != nil {
			return err
		}
		if err = s.config.Listen(port); err != nil {
			return fmt.Errorf("make the port known: %w", err)
		}
	}
	if s.other, err = s.mpi.Accept(port); err != nil {
		return fmt.Errorf("wait for the application: %w", err)
	}
	return nil
}

// swap sends out to rank 0 of the other job, and receives in from it. Either may be empty.
func (s *starter) swap(out, in []byte) error { return swap(s.mpi, s.other, startTag, out, in) }

// swap is explained at the method. Completions of other requests are ignored.
func swap(m boundary.MPI, other boundary.Comm, tag int, out, in []byte) error {
	const receive, send = 1, 2
	requests := 0
	if len(in) > 0 {
		if err := other.Receive(0, tag, in, receive); err != nil {
			return err
		}
		requests++
	}
	if len(out) > 0 {
		if err := other.Send(0, tag, out, send); err != nil {
			return err
		}
		requests++
	}
	for requests > 0 {
		var done [1]boundary.Done
		d := &done[0]
		switch n, err := m.Poll(done[:], time.Hour); {
		case err != nil:
			return err
		case n == 0 || d.ID != receive && d.ID != send:
			continue
		case d.Err != nil:
			return d.Err
		case d.ID == receive && d.Length != len(in):
			return fmt.Errorf("%d bytes instead of %d", d.Length, len(in))
		}
		requests--
	}
	return nil
}

// announce passes the PID from the proxies to the application. failed is why the proxies have none.
func (s *starter) announce(pid lnet.PID, failed error) (lnet.PID, error) {
	b := binary.LittleEndian.AppendUint32(nil, uint32(pid))
	if s.config.Proxy != nil {
		if s.comm.Rank() == 0 {
			failed = errors.Join(failed, s.swap(b, nil))
		}
		return pid, failed
	}
	if s.comm.Rank() == 0 {
		if err := s.swap(nil, b); err != nil {
			return 0, fmt.Errorf("receive the PID: %w", err)
		}
	}
	if err := s.comm.Broadcast(b, 0); err != nil {
		return 0, fmt.Errorf("broadcast the PID: %w", err)
	}
	if pid = lnet.PID(binary.LittleEndian.Uint32(b)); pid == 0 {
		return 0, errNoPID
	}
	return pid, nil
}
