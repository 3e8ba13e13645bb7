package tmping

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// stopTime is the time limit for closing a server or clients.
const stopTime = 10 * time.Second

// Side describes the addresses of the transfer machines of one side, servers or clients.
type Side struct {
	// NID is, for the server side, the NID to which clients send.
	NID    string
	Portal int
	// ID is the number of the first transfer machine, or * for a free number.
	ID string
}

// check returns an error if the side cannot have n transfer machines.
func (s Side) check(n int) error {
	if s.NID != "" {
		if _, err := lnet.ParseNID(s.NID); err != nil {
			return err
		}
	}
	if s.Portal <= lnet.ReservedPortal || s.Portal >= lnet.Portals {
		return fmt.Errorf("portal %d is not within 1 to %d: %w", s.Portal, lnet.Portals-1, syscall.EINVAL)
	}
	_, err := s.address(lnet.LoopbackNID.String(), n-1)
	return err
}

// address returns the address of transfer machine n of the side, counted from 0, at a NID.
func (s Side) address(nid string, n int) (string, error) {
	text := fmt.Sprintf("%s:%d:%d:%s", nid, lnet.PIDLustre, s.Portal, s.ID)
	a, err := transport.ParseAddress(text)
	if err != nil {
		return "", err
	}
	if a.TMID != transport.Dynamic {
		if int(a.TMID)+n > transport.MaxTMID {
			return "", fmt.Errorf("%s: the number of a transfer machine, %d, is out of range: %w", text, int(a.TMID)+n, syscall.EINVAL)
		}
		a.TMID += uint16(n)
	}
	return a.String(), nil
}

// Session is the configuration of a server and of clients. Its methods run them.
type Session struct {
	Config
	Client, Server Side
	// OnError is called with each error. Calls are not concurrent. It may be nil.
	OnError func(error)

	mu sync.Mutex // held while OnError is called
}

// Check validates the configuration.
func (s *Session) Check() error {
	if err := s.Config.Check(); err != nil {
		return err
	}
	if err := s.Client.check(s.Config.Clients); err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	if err := s.Server.check(1); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

func (s *Session) reportError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.OnError != nil {
		s.OnError(err)
	}
}

// StartServer starts a server on a host. The caller must close it.
func (s *Session) StartServer(ctx context.Context, h *tmhost.Host) (*Server, error) {
	address, err := s.Server.address(h.NID.String(), 0)
	if err != nil {
		return nil, err
	}
	return startServer(ctx, h, address, s.Config, s.reportError)
}

// Both runs a server and clients until the clients have finished or ctx is done. It returns the report
// of the server, followed by the reports that Clients returns.
func (s *Session) Both(ctx context.Context, server, clients *tmhost.Host) (reports []Report, err error) {
	k, err := s.StartServer(ctx, server)
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		err = errors.Join(err, k.Close(ctx))
	}()
	s.Server.NID, s.Server.ID = server.NID.String(), strconv.Itoa(int(k.Address().TMID))
	reports, err = s.Clients(ctx, clients)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.BulkTime)
	defer cancel()
	k.awaitIdle(ctx)
	return append([]Report{k.Report()}, reports...), nil
}

// Clients runs the configured number of clients until all have finished or ctx is done. It returns the
// report of each client and, if there are several, the sum of their reports. It returns an error if
// clients could not be started or closed; errors of their requests are counted in the reports.
func (s *Session) Clients(ctx context.Context, h *tmhost.Host) (reports []Report, err error) {
	var clients []*client
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		for _, k := range clients {
			err = errors.Join(err, k.close(ctx))
		}
	}()
	server, err := s.Server.address(s.Server.NID, 0)
	if err != nil {
		return nil, err
	}
	for n := range s.Config.Clients {
		address, err := s.Client.address(h.NID.String(), n)
		if err != nil {
			return nil, err
		}
		k, err := startClient(ctx, h.Domain, name(n, s.Config.Clients), address, server, s.Config)
		if err != nil {
			return nil, err
		}
		k.onError = s.reportError
		clients = append(clients, k)
	}
	var all sync.WaitGroup
	for _, k := range clients {
		all.Go(func() { k.run(ctx) })
	}
	all.Wait()
	settled, cancel := context.WithTimeout(ctx, s.MessageTime)
	defer cancel()
	h.FlushPeer(settled, s.Server.NID)
	for _, k := range clients {
		reports = append(reports, k.report())
	}
	if len(reports) > 1 {
		reports = append(reports, total(reports))
	}
	return reports, nil
}

func name(n, of int) string {
	if of == 1 {
		return "client"
	}
	return fmt.Sprint("client ", n)
}

// ServeCommands reads commands for the server from r, one per line (transport 10.1). An empty line calls
// show with the counters, and reset_stats does that and resets the counters. Any other line calls
// unknown. ServeCommands returns after the command quit or at the end of the input.
func (s *Server) ServeCommands(r io.Reader, show func(Report), unknown func(line string)) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		switch line := strings.TrimSpace(lines.Text()); line {
		case "quit":
			return
		case "":
			show(s.Report())
		case "reset_stats":
			show(s.Reset())
		default:
			unknown(line)
		}
	}
}
