package proxies

import (
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
)

// Rule defines which processes it applies to, and what these get as proxies.
type Rule struct {
	// Name identifies the rule in errors and in lists of proxies.
	Name string
	// The rule applies to a process if its user is in UIDs or one of its groups is in GIDs. If both are empty,
	// the rule applies to every process.
	UIDs, GIDs []uint32
	// Nets are the nets that proxies may serve. If it is empty, they may serve all nets that have NIs for proxies.
	Nets []lnet.Net
	// Proxies is the maximum number of proxies that one user has at a time. 0 means that only the limit of
	// lnetd applies.
	Proxies int
	// AreaSize is the size in bytes of the memory that lnetd shares with each proxy. 0 means the default of
	// package uplnd.
	AreaSize int
}

// Rules are the rules of an lnetd. The first one that applies to a process counts. If there are none,
// DefaultRules apply.
type Rules []Rule

// DefaultRules permit root and the user of this process to serve all nets, and no other user.
func DefaultRules() Rules { return Rules{{Name: "default", UIDs: []uint32{0, uint32(os.Geteuid())}}} }

// Check returns EINVAL if the rule is invalid.
func (r *Rule) Check() error {
	if r.AreaSize == 0 {
		return nil
	}
	return uplnd.CheckAreaSize(r.AreaSize)
}

// Admit implements uplnd.Config.Admit. It returns EACCES if no rule applies to the process, or if its rule does
// not permit the net that it wants to serve.
func (l Rules) Admit(conn *net.UnixConn, p *uplnd.Proxy) (uplnd.Terms, error) {
	who, err := unixsocket.PeerOf(conn)
	if err != nil {
		return uplnd.Terms{}, err
	}
	if len(l) == 0 {
		l = DefaultRules()
	}
	k := slices.IndexFunc(l, func(r Rule) bool { return who.IsOneOf(r.UIDs, r.GIDs) })
	if k < 0 {
		return uplnd.Terms{}, fmt.Errorf("no rule permits user %d to serve a net: %w", who.UID, syscall.EACCES)
	}
	r := &l[k]
	if len(r.Nets) > 0 && !slices.Contains(r.Nets, p.Net) {
		return uplnd.Terms{}, fmt.Errorf("rule %q does not permit user %d to serve net %s: %w", r.Name, who.UID, p.Net, syscall.EACCES)
	}
	return uplnd.Terms{Rule: r.Name, AreaSize: r.AreaSize, MaxProxies: r.Proxies}, nil
}
