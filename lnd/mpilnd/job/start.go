package job

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnet"
)

// maxAttempts is how many PIDs are tried. Two applications have the same slot by chance.
const maxAttempts = 64

// starter is one process during the collective start. Its methods are called by the goroutine of MPI, in the same
// order in all processes.
type starter struct {
	config *Config
	mpi    boundary.MPI
	comm   boundary.Comm // of this job
	other  boundary.Comm // with the other job, or nil
	all    roster        // of both jobs, the clients first
	groups []group
	root   int // the rank that chooses the PID: the first proxy, or rank 0
}

// exchange returns the table, which is the same in all processes (MPI-14).
func (s *starter) exchange(ctx context.Context) (*Table, lnet.PID, error) {
	if err := s.gather(ctx); err != nil {
		return nil, 0, err
	}
	pid, err := s.agree()
	if s.other != nil {
		pid, err = s.announce(pid, err)
	}
	if err != nil {
		return nil, 0, err
	}
	return s.all.table(pid, s.groups), pid, nil
}

// agree returns the PID that all processes of the job have agreed on. In an application whose proxies are another job it
// returns 0.
func (s *starter) agree() (lnet.PID, error) {
	if s.config.apart() && s.config.Proxy == nil {
		return 0, nil
	}
	proxies := s.all.proxies()
	if len(proxies) > 0 {
		s.root = s.rank(proxies[0])
	}
	for range maxAttempts {
		pid, err := s.choose()
		if err != nil {
			return 0, err
		}
		agreed := true
		if len(proxies) > 1 {
			if agreed, err = s.register(pid); err != nil {
				return 0, err
			}
		}
		if agreed {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("the proxies cannot register any of %d PIDs", maxAttempts)
}

// rank returns the rank of a member of this job.
func (s *starter) rank(member int) int { return member - s.groups[0].first }

// gather collects the records of all processes of the job at rank 0, and broadcasts them. If the
// proxies are a separate job, it then connects both jobs, and they exchange their records.
func (s *starter) gather(ctx context.Context) error {
	r := record{role: client, apart: s.config.apart(), rankBits: s.config.RankBits, net: s.config.Net, name: s.config.Name}
	var err error
	if s.config.Proxy != nil {
		r.role = proxy
		if r.nid, err = s.config.proxyNID(); err != nil {
			return err
		}
	}
	all := make([]byte, recordSize*s.comm.Size())
	into := all
	if s.comm.Rank() != 0 {
		into = nil
	}
	if err := s.comm.Gather(r.encode(), into, 0); err != nil {
		return fmt.Errorf("gather the addresses: %w", err)
	}
	if err := s.comm.Broadcast(all, 0); err != nil {
		return fmt.Errorf("broadcast the addresses: %w", err)
	}
	s.groups = []group{{size: s.comm.Size()}}
	if s.all, err = readRoster(all, true); err != nil || !s.config.apart() {
		return err
	}
	return s.join(ctx, all)
}

// choose returns the PID that the root has allocated and broadcast (MPI-13).
func (s *starter) choose() (lnet.PID, error) {
	var pid lnet.PID // 0 if the root has none
	var own error
	if s.comm.Rank() == s.root {
		pid, own = s.allocate()
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(pid))
	if err := s.comm.Broadcast(b, s.root); err != nil {
		return 0, fmt.Errorf("broadcast the PID: %w", err)
	}
	if pid = lnet.PID(binary.LittleEndian.Uint32(b)); pid != 0 {
		return pid, nil
	}
	if own == nil {
		own = fmt.Errorf("the proxy of rank %d has not allocated a PID for the application", s.root)
	}
	return 0, own
}

// allocate returns a PID for the application.
func (s *starter) allocate() (lnet.PID, error) {
	for range maxAttempts {
		pid := randomPID()
		if s.config.Proxy != nil {
			var err error
			if pid, err = s.config.Proxy.Allocate(); err != nil {
				return 0, fmt.Errorf("allocate a PID: %w", err)
			}
		}
		if validPID(pid, s.config.RankBits) {
			return pid, nil
		}
	}
	return 0, errors.New("no PID with a valid slot")
}

// register lets the other proxies register a PID, and reports whether all have.
func (s *starter) register(pid lnet.PID) (bool, error) {
	answer := []byte{1}
	if p := s.config.Proxy; p != nil && s.comm.Rank() != s.root && p.Register(pid) != nil {
		answer[0] = 0
	}
	var all []byte
	if s.comm.Rank() == s.root {
		all = make([]byte, s.comm.Size())
	}
	if err := s.comm.Gather(answer, all, s.root); err != nil {
		return false, fmt.Errorf("gather the answers of the proxies: %w", err)
	}
	for _, a := range all {
		answer[0] &= a
	}
	if err := s.comm.Broadcast(answer, s.root); err != nil {
		return false, fmt.Errorf("broadcast the answer of the proxies: %w", err)
	}
	return answer[0] == 1, nil
}
