package uplnd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
)

// Proxy describes a process that is, or wants to be, a proxy.
type Proxy struct {
	// Name is the name that it gives itself. Net is the net that it serves, NID that of the NI.
	Name string
	Net  lnet.Net
	NID  lnet.NID
	// PID, UID and GID are those of the process, as the kernel reports them.
	PID      int32
	UID, GID uint32
	// Since is when it was attached.
	Since time.Time
	Terms
}

// Terms are what a process gets as a proxy.
type Terms struct {
	// Rule is the name of the rule that admits it, for display.
	Rule string
	// AreaSize is the size in bytes of the memory that is shared with it. 0 means Config.AreaSize.
	AreaSize int
	// MaxProxies is the maximum number of proxies that its user has at a time. 0 means no limit of the user.
	MaxProxies int
}

// refuse sends the reason for which a process cannot be a proxy.
func refuse(conn *net.UnixConn, err error) {
	_, _ = conn.Write(failureRecord(err)) // the deadline of the attachment applies
	_ = conn.Close()
}

// failureRecord returns the record that tells a proxy an error. Its text does not repeat that of the errno.
func failureRecord(err error) []byte {
	f := protocol.Failure{Errno: syscall.EIO}
	errors.As(err, &f.Errno)
	f.Text = strings.TrimSuffix(err.Error(), ": "+f.Errno.Error())
	return f.Append(nil)
}

// attach reads the request of a process and makes it a proxy.
func (s *Server) attach(conn *net.UnixConn) (*proxyEnd, error) {
	if err := conn.SetDeadline(time.Now().Add(attachTimeout)); err != nil {
		return nil, err
	}
	record := make([]byte, protocol.AttachSize+1)
	n, _, _, _, err := conn.ReadMsgUnix(record, nil)
	s.greeted(conn)
	if err != nil {
		return nil, err
	}
	var request protocol.Attach
	if err := request.Decode(record[:n]); err != nil {
		return nil, err
	}
	cred, err := credentials(conn)
	if err != nil {
		return nil, err
	}
	who := Proxy{Name: request.Name, Net: request.Net, NID: request.NID, PID: cred.Pid, UID: cred.Uid, GID: cred.Gid, Since: time.Now()}
	i, err := s.choose(conn, &who)
	if err != nil {
		return nil, err
	}
	p, err := s.newProxyEnd(conn, i, &who)
	if err != nil {
		s.release(who.UID)
		i.refused.Store(&refusal{who, who.Since, "was refused", err})
		return nil, err
	}
	return p, nil
}

// release says that a user has one proxy less.
func (s *Server) release(uid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proxies[uid]--; s.proxies[uid] == 0 {
		delete(s.proxies, uid)
	}
}

// choose returns the NI that a process wants to serve, if it may. It counts the process as a proxy. It notes a
// refusal in the NIs that the process wants to serve.
func (s *Server) choose(conn *net.UnixConn, who *Proxy) (*ni, error) {
	terms, admission := s.admit(conn, who)
	s.mu.Lock()
	defer s.mu.Unlock()
	var onNet, found []*ni
	for nid, i := range s.nis {
		if nid.Net() != who.Net || !who.NID.IsZero() && nid != who.NID {
			continue
		}
		onNet = append(onNet, i)
		if i.proxy == "" || i.proxy == who.Name {
			found = append(found, i)
		}
	}
	err := s.examine(who, onNet, found, terms, admission)
	if err != nil {
		concerned := found
		if len(found) == 0 {
			concerned = onNet
		}
		for _, i := range concerned {
			i.refused.Store(&refusal{*who, who.Since, "was refused", err})
		}
		return nil, err
	}
	found[0].refused.Store(nil)
	s.proxies[who.UID]++
	return found[0], nil
}

// admit returns the terms for a process. It makes system calls, so no lock is held.
func (s *Server) admit(conn *net.UnixConn, who *Proxy) (Terms, error) {
	if s.config.Admit == nil {
		return Terms{}, nil
	}
	return s.config.Admit(conn, who)
}

// examine returns an error if a process may not serve an NI. The NIs onNet are those that it may mean; found are
// those of them whose proxies have its name. The result of admit was terms and admission. It sets the NID of the NI
// and the terms in who. s.mu is held.
func (s *Server) examine(who *Proxy, onNet, found []*ni, terms Terms, admission error) error {
	until, punished := s.punished[who.UID]
	if punished && time.Now().After(until) {
		delete(s.punished, who.UID)
		punished = false
	}
	total := 0
	for _, n := range s.proxies {
		total += n
	}
	switch {
	case s.closed:
		return fmt.Errorf("lnetd is shutting down: %w", syscall.ESHUTDOWN)
	case len(onNet) > 0 && len(found) == 0:
		return fmt.Errorf("net %s is for proxies with the name %q, not %q: %w", who.Net, onNet[0].proxy, who.Name, syscall.ENODEV)
	case len(found) == 0:
		return fmt.Errorf("no NI on net %s with NID %q is served by proxies: %w", who.Net, who.NID, syscall.ENODEV)
	case len(found) > 1:
		return fmt.Errorf("%d NIs are on net %s: name one: %w", len(found), who.Net, syscall.ENOTUNIQ)
	case punished:
		return fmt.Errorf("a proxy of user %d was cut off: wait %v: %w", who.UID, time.Until(until).Round(time.Second), syscall.EAGAIN)
	case total >= s.config.MaxProxies:
		return fmt.Errorf("%d proxies are attached, which is the limit: %w", total, syscall.EDQUOT)
	case admission != nil:
		return admission
	}
	who.NID, who.Terms = found[0].config.NID, terms
	who.AreaSize = cmp.Or(who.AreaSize, s.config.AreaSize)
	if has := s.proxies[who.UID]; who.MaxProxies > 0 && has >= who.MaxProxies {
		return fmt.Errorf("user %d has %d proxies, which is the limit of rule %q: %w", who.UID, has, who.Rule, syscall.EDQUOT)
	}
	return CheckAreaSize(who.AreaSize)
}

// punish keeps proxies of a user away for a while.
func (s *Server) punish(uid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config.Quarantine > 0 {
		s.punished[uid] = time.Now().Add(s.config.Quarantine)
	}
}

// rings is the format of the ring file.
var rings = shared.Format{Submission: protocol.EntrySize, Completion: protocol.EntrySize}

// newProxyEnd creates what is shared with a proxy, passes it to the proxy, and attaches it to the NI.
func (s *Server) newProxyEnd(conn *net.UnixConn, i *ni, who *Proxy) (_ *proxyEnd, err error) {
	ring, files, err := rings.Create(shared.Sizes{Submissions: s.config.Entries, Completions: s.config.Entries})
	if err != nil {
		return nil, err
	}
	defer files.Close()
	area, fd, err := shared.Create("lnetd-proxy", who.AreaSize)
	if err != nil {
		_ = ring.Close()
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	half := who.AreaSize / 2
	p := &proxyEnd{
		Proxy: *who, ni: i, conn: conn, ring: ring, area: area, ended: make(chan struct{}),
		here: protocol.NewBuffers(0, half), there: protocol.NewBuffers(uint64(half), half),
		arrivals: make(map[uint64]*arrival), peers: make(map[lnet.NID]struct{}), used: make(map[lnet.NID]int),
	}
	p.unused.L = &p.mu
	reply := protocol.Attached{NID: i.config.NID, AreaSize: who.AreaSize, Timeout: i.Timeout()}
	rights := unix.UnixRights(files.Ring, files.Submissions, files.Completions, fd)
	if err = i.enter(p); err == nil {
		if _, _, err = conn.WriteMsgUnix(reply.Append(nil), rights, nil); err == nil {
			err = conn.SetDeadline(time.Time{})
		}
		if err != nil {
			p.end(errGone) // the NI may be about to put an order into the ring
			i.leave(p)
			close(p.ended)
		}
	}
	if err != nil {
		return nil, errors.Join(err, ring.Close(), area.Close())
	}
	i.log.Report(boundedlog.Line{
		Level: slog.LevelInfo, Text: "a proxy has attached to the NI and carries its messages", Of: boundedlog.About("proxy", who.Name),
	}, slog.Int("pid", int(who.PID)), slog.Uint64("uid", uint64(who.UID)))
	return p, nil
}

// credentials returns those of the process at the other end.
func credentials(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return nil, e
	}
	return cred, err
}
